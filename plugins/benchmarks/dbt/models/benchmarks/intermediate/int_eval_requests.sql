with items as (
    select * from {{ source('evals', 'eval_items') }}
),

units as (
    select
        *,
        document_sha256 as unit_sha256
    from {{ source('evals', 'eval_units') }}
),

tokens as (
    select * from {{ source('evals', 'eval_tokens') }}
),

answered as (
    select * from {{ ref('int_eval_answered') }}
),

sums as (
    select
        problem,
        model_id,
        condition,
        doc_id,
        segment,
        sum(cast(logprob as double)) as loglikelihood,
        bool_and(rank = 1) as is_greedy,
        count(*) as tokens,
        greatest(max(position - context_tokens), 0) as tokens_cut
    from tokens
    group by problem, model_id, condition, doc_id, segment
),

-- Of a unit that was read when the task's requests were these; a failed one has the rows of items
-- that could be scored. An empty text has no tokens, and nothing to add.
made_here as (
    select
        items.*,
        units.model_id,
        coalesce(sums.loglikelihood, 0) as loglikelihood,
        sums.is_greedy,
        coalesce(sums.tokens, 0) as tokens,
        coalesce(sums.tokens_cut, 0) as tokens_cut,
        units.backend
    from items
    inner join units using (problem, condition, doc_id, unit_sha256)
    left join sums using (problem, model_id, condition, doc_id, segment)
    where sums.loglikelihood is not null
        or (
            units.status = 'done'
            and items.request_type = 'loglikelihood_rolling'
            and items.continuation = ''
        )
),

made_elsewhere as (
    select
        * exclude (filter, answer),
        cast(null as bigint) as tokens,
        cast(null as integer) as tokens_cut
    from answered
    where loglikelihood is not null
),

requests as (
    select * from made_here
    union all by name
    select * from made_elsewhere
)

select * from requests
