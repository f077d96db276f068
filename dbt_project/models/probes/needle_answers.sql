with tokens as (
    {{ probe_tokens("condition_kind in ('needle_present', 'needle_absent')") }}
),

-- As many sentences as depths; a segment is depth · sentences + sentence (warehouse/probes).
answers as (
    select
        problem,
        model_id,
        probe,
        doc_id,
        document_tokens,
        condition_kind as kind,
        from_json(probe_params -> '$.depths', '["DOUBLE"]') as depths,
        segment % len(depths) as sentence,
        depths[segment // len(depths) + 1] as depth,
        count(*) as tokens,
        -sum(cast(logprob as double)) as nll,
        arg_min(rank, position) = 1 as first_token_right,
        max(rank) = 1 as all_tokens_right
    from tokens
    group by all
),

present as (
    select * exclude (kind, depths) from answers
    where kind = 'needle_present'
),

needle_answers as (
    select
        present.*,
        absent.nll as absent_nll,
        absent.first_token_right as absent_first_token_right
    from present
    inner join answers as absent using (problem, model_id, probe, doc_id, sentence)
    where absent.kind = 'needle_absent'
)

select * from needle_answers
