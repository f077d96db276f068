-- What a problem's tables are built from, as lines whose hashes are its state. Identities of models
-- in `needed` are left out: they are known only where the files are, and decide which units are
-- current.

with lines as (
    select
        problem,
        'problem file' as part,
        concat_ws(
            ' ',
            model_id,
            is_ranked,
            base_id,
            parameters,
            condition,
            condition_kind,
            probe,
            probe_params,
            compared_with
        ) as line
    from main.needed
    union all
    select
        problem,
        'texts' as part,
        concat_ws(' ', doc_id, sha256) as line
    from main.documents
    union all
    select
        problem,
        'units' as part,
        concat_ws(' ', model_id, condition, doc_id, status, content_sha256, reason) as line
    from main.units
    where status in ('done', 'failed')
)

select
    problem,
    part,
    sha256(string_agg(line, chr(10) order by line)) as sha256
from lines
group by problem, part
