with gain_sums as (
    select * from {{ ref('int_gain_sums') }}
),

contexts as (
    select * from {{ ref('int_contexts') }}
),

document_lengths as (
    select * from {{ ref('int_document_lengths') }}
),

variants as (
    select
        *,
        ln(gamma) as ceiling_gain
    from {{ ref('stg_metric_variants') }}
    where metric = 'longppl_soft'
),

weighted as (
    select
        gain_sums.problem,
        gain_sums.model_id,
        gain_sums.probe,
        gain_sums.doc_id,
        variants.variant,
        sum(
            case
                when gain_sums.gain_floor >= variants.ceiling_gain
                    then variants.gamma * gain_sums.nll_sum
                else gain_sums.weighted_nll_sum
            end
        ) as numerator,
        sum(
            case
                when gain_sums.gain_floor >= variants.ceiling_gain
                    then variants.gamma * gain_sums.tokens
                else gain_sums.weight_sum
            end
        ) as denominator,
        sum(gain_sums.tokens) as tokens
    from gain_sums
    cross join variants
    group by
        gain_sums.problem,
        gain_sums.model_id,
        gain_sums.probe,
        gain_sums.doc_id,
        variants.variant
),

terms as (
    select
        weighted.*,
        document_lengths.document_tokens,
        true as is_log
    from weighted
    inner join contexts
        on weighted.problem = contexts.problem
        and weighted.model_id = contexts.model_id
        and weighted.probe = contexts.probe
    inner join document_lengths
        on weighted.problem = document_lengths.problem
        and weighted.model_id = document_lengths.model_id
        and contexts.full_probe = document_lengths.probe
        and weighted.doc_id = document_lengths.doc_id
),

longppl_soft as (
    {{ over_documents(
        'longppl_soft',
        'terms',
        probe = 'probe',
        weight = 'document_tokens',
        is_log = 'terms.is_log',
    ) }}
)

select * from longppl_soft
