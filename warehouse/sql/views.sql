-- Public views over the tables of the store. `ledger` has the records of published units, and
-- `unit_status` adds what is decided on each (warehouse/problem/unit_status.sql).

-- The units of the ledger, with their present status and the reason of one that failed or is
-- outdated. Nothing is computed from an outdated unit.
create or replace view main.units as
select * from main.unit_status
where status != 'missing';

-- What is known of the rows of each condition: `agrees`, `differs`, `outdated` (units have changed
-- since) or `not audited`. The coarsest dtype is the first by name.
create or replace view main.audit_states as
with present as (
    select
        problem,
        model_id,
        condition,
        sum(rows)::bigint as rows,
        sha256(string_agg(concat(doc_id, ' ', content_sha256), ',' order by doc_id)) as present_sha256,
        coalesce(min(nullif(dtype, '')), '') as unit_dtype,
        bool_or(imported != '') as is_imported
    from main.units
    where status = 'done' and rows > 0
    group by all
)
select
    *,
    case
        when units_sha256 is null then 'not audited'
        when units_sha256 != present_sha256 then 'outdated'
        else if(cause = '', 'agrees', 'differs')
    end as state
from present
left join main.audits using (problem, model_id, condition);
