-- Pairs stay pairs: all entries and all metrics of a task are resampled by the same items. md5
-- gives the same numbers on every machine and in every version of DuckDB. Fewer than 5 groups of
-- tasks are not resampled: 4 have 35 different draws, 3 have 10, too few for a middle 95%.

with ranking_values as (
    select * from {{ ref('int_ranking_values') }}
),

item_rounds as (
    select
        problem,
        round
    from ranking_values
    group by problem, round
    having bool_and(item is not null)
),

drawn_things as (
    select distinct
        ranking_values.problem,
        ranking_values.round,
        ranking_values.task as stratum,
        ranking_values.cluster as thing,
        'items' as resampled
    from ranking_values
    inner join item_rounds
        on ranking_values.problem = item_rounds.problem
        and ranking_values.round = item_rounds.round
    union all
    select distinct
        ranking_values.problem,
        ranking_values.round,
        '' as stratum,
        ranking_values.task_group as thing,
        'tasks' as resampled
    from ranking_values
    anti join item_rounds
        on ranking_values.problem = item_rounds.problem
        and ranking_values.round = item_rounds.round
),

numbered as (
    select
        *,
        row_number() over (stratum_things order by thing) - 1 as place,
        count(*) over stratum_things as things
    from drawn_things
    window stratum_things as (partition by problem, round, stratum)
),

picked as (
    select
        numbered.problem,
        numbered.round,
        numbered.stratum,
        draws.draw,
        md5_number_lower(
            concat_ws(
                '/',
                {{ var('ranking_seed', 0) }},
                draws.draw,
                numbered.round,
                numbered.stratum,
                numbered.place
            )
        ) % numbered.things as place
    from numbered
    cross join range(1, 1 + {{ var('ranking_draws', 1000) }}) as draws (draw)
    where numbered.resampled = 'items' or numbered.things >= 5
),

times_drawn as (
    select
        problem,
        round,
        stratum,
        draw,
        place,
        count(*) as times
    from picked
    group by problem, round, stratum, draw, place
),

named as (
    select
        numbered.problem,
        numbered.round,
        times_drawn.draw,
        numbered.resampled,
        numbered.stratum,
        numbered.thing,
        times_drawn.times
    from times_drawn
    inner join numbered
        on times_drawn.problem = numbered.problem
        and times_drawn.round = numbered.round
        and times_drawn.stratum = numbered.stratum
        and times_drawn.place = numbered.place
),

as_measured as (
    select
        problem,
        round,
        0 as draw,
        resampled,
        stratum,
        thing,
        1 as times
    from drawn_things
)

select * from as_measured
union all by name
select * from named
