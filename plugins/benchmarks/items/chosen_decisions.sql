-- Do chosen items order models half-way through training as all items do at the end?
-- `tokenmart e2lm curate` runs it on benchmark_scores, whose benchmark is `fold:place:variant`, with
-- a variant `all`. A tie in either is half an agreement.

with numbered as (
    select
        regexp_extract(benchmark, '^(.*):[^:]*$', 1) as part,
        regexp_extract(benchmark, '([^:]*)$', 1) as variant,
        model_id,
        score,
        row_number() over (partition by benchmark, model_id order by tokens) - 1 as checkpoint,
        count(*) over (partition by benchmark, model_id) - 1 as last_checkpoint
    from benchmark_scores
),

halves as (
    select * from numbered
    where checkpoint = floor(last_checkpoint / 2) and checkpoint < last_checkpoint
),

ends as (
    select * from numbered
    where variant = 'all' and checkpoint = last_checkpoint
),

placed as (
    select
        halves.*,
        ends.score as final_score
    from halves
    inner join ends using (part, model_id)
)

select
    one.part,
    one.variant,
    count(*) as pairs,
    avg(
        (1 + sign(one.score - other.score) * sign(one.final_score - other.final_score)) / 2
    ) as decision_accuracy
from placed as one
inner join placed as other
    on one.part = other.part
    and one.variant = other.variant
    and one.model_id < other.model_id
group by one.part, one.variant
