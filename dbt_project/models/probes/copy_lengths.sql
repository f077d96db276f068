with tokens as (
    {{ probe_tokens("condition_kind in ('copy_present', 'copy_absent')") }}
),

passages as (
    select
        problem,
        model_id,
        probe,
        doc_id,
        document_tokens,
        condition_kind as kind,
        cast(probe_params ->> '$.length' as integer) as length,
        segment,
        count(*) as tokens,
        -sum(cast(logprob as double)) as nll,
        count_if(rank = 1) as top_1
    from tokens
    group by all
),

copy_lengths as (
    select
        present.problem,
        present.model_id,
        present.probe,
        present.doc_id,
        present.document_tokens,
        present.length,
        cast(sum(present.tokens) as bigint) as tokens,
        sum(present.nll) / sum(present.tokens) as nll,
        sum(absent.nll) / sum(present.tokens) as absent_nll,
        sum(present.top_1) / sum(present.tokens) as accuracy,
        sum(absent.top_1) / sum(present.tokens) as absent_accuracy,
        present.length = max(present.length) over (
            partition by present.problem, present.model_id, present.probe, present.doc_id
        ) as is_longest
    from passages as present
    inner join passages as absent using (problem, model_id, probe, doc_id, length, segment)
    where present.kind = 'copy_present' and absent.kind = 'copy_absent'
    group by
        present.problem,
        present.model_id,
        present.probe,
        present.doc_id,
        present.document_tokens,
        present.length
)

select * from copy_lengths
