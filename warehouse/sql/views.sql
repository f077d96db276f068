-- Public views over the tables of the store. `ledger` has the records of published units, and
-- `unit_status` what is decided on each (warehouse/problem/unit_status.sql).

-- The units of the ledger, with their present status and the reason of one that failed or is
-- outdated. Nothing is computed from an outdated unit.
create or replace view main.units as
select
    ledger.* replace (unit_status.status as status),
    unit_status.why,
    unit_status.is_needed,
    unit_status.is_ranked
from main.ledger
inner join main.unit_status using (problem, model_id, condition, doc_id);
