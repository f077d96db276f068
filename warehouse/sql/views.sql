-- Public views over the tables of the store. `ledger` has the records of published units, and
-- `unit_status` adds what is decided on each (warehouse/problem/unit_status.sql).

-- The units of the ledger, with their present status and the reason of one that failed or is
-- outdated. Nothing is computed from an outdated unit.
create or replace view main.units as
select * from main.unit_status
where status != 'missing';
