with tokenisations as (
    select * from {{ ref('int_tokenisations') }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

neighbours as (
    select
        tokenisations.problem,
        tokenisations.tokenizer_sha256,
        token_stats.doc_id,
        token_stats.position,
        token_stats.char_start,
        token_stats.char_end,
        lag(token_stats.char_start) over document as previous_start,
        lag(token_stats.char_end) over document as previous_end
    from token_stats
    inner join tokenisations
        on token_stats.problem = tokenisations.problem
        and token_stats.model_id = tokenisations.model_id
        and token_stats.probe = tokenisations.probe
        and token_stats.doc_id = tokenisations.doc_id
    window document as (
        partition by tokenisations.problem, tokenisations.tokenizer_sha256, token_stats.doc_id
        order by token_stats.position
    )
),

-- A token goes on with its predecessor's cluster when their spans overlap, or when one of
-- the two is empty and they touch.
clusters as (
    select
        * exclude (previous_start, previous_end),
        sum(
            case
                when char_start < previous_end then 0
                when char_start = previous_end
                    and (char_start = char_end or previous_start = previous_end) then 0
                else 1
            end
        ) over (
            partition by problem, tokenizer_sha256, doc_id
            order by position
        ) as cluster
    from neighbours
),

shared_spans as (
    select * from clusters
    qualify count(*) over (
            partition by problem, tokenizer_sha256, doc_id, cluster
        ) > 1
)

select * from shared_spans
