with tokens as (
    select * from {{ ref('fct_tokens') }}
    where is_first_pair
        -- imported log-probs may lack them
        and top_logprob is not null
        and rank is not null
),

units as (
    select * from {{ ref('token_units') }}
),

finest as (
    select
        unit_id,
        cast(least(floor(exp(cast(top_logprob as double)) * 20), 19) as integer) as bin,
        sum(exp(cast(top_logprob as double))) as confidence_sum,
        count_if(rank = 1) as top_1,
        count(*) as tokens
    from tokens
    group by unit_id, bin
),

binnings as (
    select unnest([10, 20]) as bins
),

confidence_bins as (
    select
        units.problem,
        units.model_id,
        units.doc_id,
        units.document_tokens,
        cast(null as varchar) as pair,
        binnings.bins,
        finest.bin * binnings.bins // 20 as bin,
        sum(finest.confidence_sum) as confidence_sum,
        cast(sum(finest.top_1) as bigint) as top_1,
        cast(sum(finest.tokens) as bigint) as tokens
    from finest
    inner join units using (unit_id)
    cross join binnings
    group by all
)

select * from confidence_bins
