with units as (
    select
        *,
        from_json(probe_params -> '$.depths', '["DOUBLE"]') as depths
    from {{ ref('int_units') }}
    where kind in ('needle_present', 'needle_absent')
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

-- As many sentences as depths; a segment is depth · sentences + sentence (warehouse/probes).
answers as (
    select
        units.problem,
        units.model_id,
        units.probe,
        units.doc_id,
        units.document_tokens,
        units.kind,
        token_stats.segment % len(units.depths) as sentence,
        units.depths[token_stats.segment // len(units.depths) + 1] as depth,
        count(*) as tokens,
        -sum(cast(token_stats.logprob as double)) as nll_sum,
        arg_min(token_stats.rank, token_stats.position) = 1 as first_token_right,
        max(token_stats.rank) = 1 as all_tokens_right
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units') }}
    group by all
),

present as (
    select * from answers
    where kind = 'needle_present'
),

absent as (
    select * from answers
    where kind = 'needle_absent'
),

compared as (
    select
        present.problem,
        present.model_id,
        present.probe,
        present.doc_id,
        present.document_tokens,
        present.sentence,
        present.depth,
        present.tokens,
        present.nll_sum,
        present.first_token_right,
        present.all_tokens_right,
        absent.nll_sum as absent_nll_sum,
        absent.first_token_right as absent_first_token_right
    from present
    inner join absent
        on present.problem = absent.problem
        and present.model_id = absent.model_id
        and present.probe = absent.probe
        and present.doc_id = absent.doc_id
        and present.sentence = absent.sentence
)

select * from compared
