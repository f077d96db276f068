-- Failed units and their reasons
-- Failed units have no rows; the next extraction repeats them.
-- param problem  -- which problem
select
    units.model_id,
    units.condition,
    units.doc_id,
    documents.name as document,
    units.reason
from units
left join documents using (problem, doc_id)
where units.problem = $problem and units.status = 'failed'
order by units.model_id, units.condition, units.doc_id
