with evaluations as (
    select * from {{ ref('int_evaluations') }}
),

evaluators as (
    select distinct
        problem,
        probe,
        evaluator,
        evaluator_id
    from evaluations
),

variants as (
    select distinct
        evaluator,
        alpha,
        beta
    from {{ ref('stg_metric_variants') }}
    where evaluator is not null
),

context_pairs as (
    select * from {{ ref('int_context_pairs') }}
),

key_tokens as (
    select
        evaluators.problem,
        evaluators.probe,
        evaluators.evaluator,
        variants.alpha,
        variants.beta,
        context_pairs.doc_id,
        context_pairs.position,
        context_pairs.char_start,
        context_pairs.char_end
    from context_pairs
    inner join evaluators
        on context_pairs.problem = evaluators.problem
        and context_pairs.probe = evaluators.probe
        and context_pairs.model_id = evaluators.evaluator_id
    inner join variants
        on evaluators.evaluator = variants.evaluator
        and cast(context_pairs.logprob as double)
        - cast(context_pairs.short_logprob as double) > variants.alpha
        and context_pairs.logprob > variants.beta
),

-- Intervals of touching key tokens, as the paper's code merges them.
openings as (
    select
        *,
        case
            when char_start = lag(char_end)
                    over (
                        partition by problem, probe, evaluator, alpha, beta, doc_id
                        order by position
                    )
                then 0
            else 1
        end as opens
    from key_tokens
),

numbered as (
    select
        *,
        sum(opens) over (
            partition by problem, probe, evaluator, alpha, beta, doc_id
            order by position
        ) as interval_number
    from openings
),

intervals as (
    select
        problem,
        probe,
        evaluator,
        alpha,
        beta,
        doc_id,
        min(char_start) as interval_start,
        max(char_end) as interval_end
    from numbered
    group by
        problem,
        probe,
        evaluator,
        alpha,
        beta,
        doc_id,
        interval_number
),

characters as (
    select
        * exclude (interval_start),
        unnest(generate_series(interval_start, interval_end)) as character
    from intervals
),

-- One row per character, with the furthest end of an interval that holds it.
key_characters as (
    select
        problem,
        probe,
        evaluator,
        alpha,
        beta,
        doc_id,
        cast(character as integer) as character,
        max(interval_end) as interval_end
    from characters
    group by
        problem,
        probe,
        evaluator,
        alpha,
        beta,
        doc_id,
        character
)

select * from key_characters
