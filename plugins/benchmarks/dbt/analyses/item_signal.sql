-- What single items contribute over training, and which of them to keep. `tokenmart e2lm curate`
-- runs it on a table item_scores (model, checkpoint, item, score).
--
-- rise: change of the score from the first checkpoint to the last, along a straight line, mean over
-- models. wobble: half the mean square of successive changes, the variance of what is no trend.
-- A test of independent items has signal-to-noise sum(rise) / sqrt(sum(wobble)); among all sets of
-- items the best one is where rise / wobble is above a threshold, so that only prefixes of that
-- order need to be tried. The wobble of an item is known from a few checkpoints only: the mean of
-- all items' is added to each.

with steps as (
    select
        model,
        item,
        checkpoint,
        score,
        score - lag(score) over (partition by model, item order by checkpoint) as change
    from item_scores
),

of_models as (
    select
        model,
        item,
        regr_slope(score, checkpoint) * (max(checkpoint) - min(checkpoint)) as rise,
        avg(change ** 2) / 2 as wobble,
        avg(score) as score
    from steps
    group by model, item
),

of_items as (
    select
        item,
        avg(rise) as rise,
        avg(wobble) as wobble,
        avg(score) as score
    from of_models
    group by item
),

shrunk as (
    select
        *,
        wobble + avg(wobble) over () as sure_wobble
    from of_items
),

ordered as (
    select
        *,
        coalesce(rise / nullif(sure_wobble, 0), 0) as merit
    from shrunk
),

numbered as (
    select
        *,
        row_number() over (order by merit desc, item asc) as place
    from ordered
),

prefixes as (
    select
        *,
        sum(rise) over (order by place)
        / nullif(sqrt(sum(sure_wobble) over (order by place)), 0) as prefix_snr
    from numbered
),

best as (
    select
        coalesce(
            arg_max(place, prefix_snr), least({{ var('fewest_items', 100) }}, max(place))
        ) as size
    from prefixes
    where place between {{ var('fewest_items', 100) }} and {{ var('most_items', 15000) }}
)

select
    prefixes.item,
    prefixes.rise,
    prefixes.wobble,
    prefixes.score,
    prefixes.merit,
    prefixes.place,
    prefixes.place <= best.size as is_chosen
from prefixes
cross join best
