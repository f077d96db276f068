-- Runs named SIZE-MULTIPLE, losses, and 20 tasks by four scoring methods. Parameters are those of
-- src/ladder/ladder.py. The files of OLMo 2 are its main training run; others repeat parts of it.

with sizes as (
    from (values
        ('190M', 190354176), ('370M', 371262464), ('760M', 758220288), ('1B', 1279395840),
        ('3B', 3169537280), ('7B', 6887575552), ('13B', 13202396160)
    ) as sizes (size, parameters)
),

targets as (
    from (values ('peteish7_eval_full', '7B'), ('peteish13_eval_full', '13B')) as t (name, size)
),

lines as (
    select *, parse_filename(filename, true) as name
    from read_csv(
        'src/scripts/paper/data/ladder-runs/*.csv',
        union_by_name = true, all_varchar = true, filename = true
    )
),

cells as (
    unpivot lines on columns('^eval/') into name measure value score
),

measured as (
    select
        *,
        regexp_extract(measure, '^eval/([\w-]+)-validation/CrossEntropyLoss$', 1) as text,
        regexp_extract(
            measure, '^eval/(downstream\w*)/(\w+)_rc_5shot_\w+$', ['kind', 'task']
        ) as found
    from cells
)

select
    if(targets.size is null, measured.name, targets.size || '-final') as model,
    sizes.size,
    sizes.size as family,
    sizes.parameters,
    cast(_step as bigint) as step,
    coalesce(
        cast("throughput/total_tokens" as double),
        cast(_step as bigint) * cast(batch_size_in_tokens as double)
    ) as tokens,
    if(text = '', found.task, text) as benchmark,
    case
        when text != '' then 'cross_entropy'
        when found.kind = 'downstream' then 'accuracy'
        else substr(found.kind, 12)
    end as metric,
    if(metric in ('cross_entropy', 'bpb'), 'lower', 'higher') as direction,
    cast(score as double) as score
from measured
left join targets on measured.name = targets.name
inner join sizes on sizes.size = coalesce(targets.size, split_part(measured.name, '-', 1))
where text != '' or found.kind in ('downstream', 'downstream_bpb', 'downstream_soft', 'downstream_soft_log')
