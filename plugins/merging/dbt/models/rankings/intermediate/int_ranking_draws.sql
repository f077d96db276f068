-- Pairs stay pairs: all entries and all metrics of a task are resampled by the same items. md5
-- gives the same numbers on every machine and in every version of DuckDB.

with round_units as (
    select * from {{ ref('int_ranking_units') }}
    where units >= 6
),

things as (
    select distinct
        round_units.problem,
        round_units.round,
        round_units.resampled,
        if(round_units.resampled = 'items', scores.task, '') as stratum,
        if(round_units.resampled = 'items', scores.cluster, scores.task_group) as thing
    from {{ ref('int_ranking_values') }} as scores
    inner join round_units using (problem, round)
),

numbered as (
    select
        *,
        row_number() over (stratum_things order by thing) - 1 as place,
        count(*) over stratum_things as things
    from things
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
    cross join
        range(
            {{ var('ranking_first_draw', 1) }},
            {{ var('ranking_first_draw', 1) }} + {{ var('ranking_draws', 1000) }}
        ) as draws (draw)
),

times_drawn as (
    select
        *,
        count(*) as times
    from picked
    group by all
)

select
    numbered.problem,
    numbered.round,
    times_drawn.draw,
    numbered.resampled,
    numbered.stratum,
    numbered.thing,
    times_drawn.times
from times_drawn
inner join numbered using (problem, round, stratum, place)
