with units as (
    select * from {{ ref('token_units') }}
    where pair is not null
),

-- Read twice: one copy in memory would contain every token.
token_pairs as not materialized (
    select
        unit_id,
        cast(entropy as double) as entropy,
        cast(short_entropy as double) as short_entropy
    from {{ ref('fct_tokens') }}
    where gain is not null
        and is_common
        -- imported log-probs may lack it
        and entropy is not null
),

-- A document sets its own threshold.
documents as (
    select
        unit_id,
        avg(short_entropy) as mean,
        stddev_pop(short_entropy) as deviation
    from token_pairs
    group by unit_id
),

-- Few tokens: those above the lower threshold.
uncertain as (
    select
        token_pairs.*,
        documents.mean,
        documents.deviation
    from token_pairs
    inner join documents using (unit_id)
    where token_pairs.short_entropy > documents.mean + 1.5 * documents.deviation
),

thresholds as (
    select unnest([1.5, 2.0]) as alpha
),

resolved_entropies as (
    select
        units.problem,
        units.model_id,
        units.doc_id,
        units.document_tokens,
        units.pair,
        cast(thresholds.alpha as double) as alpha,
        count(*) as tokens,
        count_if(1 - uncertain.entropy / uncertain.short_entropy > 0.2) as resolved_20,
        count_if(1 - uncertain.entropy / uncertain.short_entropy > 0.4) as resolved_40,
        sum(1 - uncertain.entropy / uncertain.short_entropy) as decrease_sum
    from uncertain
    inner join thresholds
        on uncertain.short_entropy > uncertain.mean + thresholds.alpha * uncertain.deviation
    inner join units using (unit_id)
    group by all
)

select * from resolved_entropies
