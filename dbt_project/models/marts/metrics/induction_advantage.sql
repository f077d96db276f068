with feature_sums as (
    select * from {{ ref('int_feature_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'induction_advantage'
),

ngrams as (
    select distinct ngram from variants
),

repeats as (
    select
        feature_sums.problem,
        feature_sums.model_id,
        feature_sums.doc_id,
        variants.variant,
        variants.ngram,
        sum(feature_sums.nll_sum) as nll_sum,
        sum(feature_sums.tokens) as tokens
    from feature_sums
    inner join variants
        on {{ repeated_within('feature_sums') }}
    group by
        feature_sums.problem,
        feature_sums.model_id,
        feature_sums.doc_id,
        variants.variant,
        variants.ngram
),

firsts as (
    select
        feature_sums.problem,
        feature_sums.model_id,
        feature_sums.doc_id,
        ngrams.ngram,
        sum(feature_sums.nll_sum) as nll_sum,
        sum(feature_sums.tokens) as tokens
    from feature_sums
    inner join ngrams
        on case ngrams.ngram
            when 2 then feature_sums.bigram_distance_floor is null
            when 4 then feature_sums.fourgram_distance_floor is null
        end
    group by
        feature_sums.problem,
        feature_sums.model_id,
        feature_sums.doc_id,
        ngrams.ngram
),

terms as (
    select
        repeats.problem,
        repeats.model_id,
        repeats.doc_id,
        repeats.variant,
        firsts.nll_sum / firsts.tokens - repeats.nll_sum / repeats.tokens as numerator,
        1 as denominator,
        repeats.tokens
    from repeats
    inner join firsts
        on repeats.problem = firsts.problem
        and repeats.model_id = firsts.model_id
        and repeats.doc_id = firsts.doc_id
        and repeats.ngram = firsts.ngram
),

induction_advantage as (
    {{ over_documents('induction_advantage', 'terms') }}
)

select * from induction_advantage
