-- Effect of an intervention on its checkpoint, by position
-- Difference of the mean NLL from the checkpoint it acts on; both scored the same tokens.
-- param problem  -- which problem
select
    models.model_id,
    models.base_id,
    (2 ** floor(log2(greatest(changed.position, 1))))::bigint as from_position,
    count(*) as tokens,
    avg(base.logprob::double - changed.logprob::double) as nll_added
from models
inner join tokens as changed using (problem, model_id)
inner join tokens as base
    on
        models.problem = base.problem
        and models.base_id = base.model_id
        and changed.condition = base.condition
        and changed.doc_id = base.doc_id
        and changed.position = base.position
where models.problem = $problem and changed.condition = 'full'
group by all
order by models.model_id, from_position
