-- Signal of each item over training, and the choice of items. `tokenmart e2lm curate` runs this on
-- a table item_scores (model, checkpoint, progress, item, score, recipe, shape).
--
-- rise: change of the score from the first checkpoint to the last along a fitted straight line, mean
--   over models.
-- noise_variance: half the mean square of the changes between successive checkpoints.
-- gap: score of models trained on science data minus that of models trained on web data, for one
--   size and architecture (shape) at the same progress.
-- effect: rise and gap, each in standard deviations over items, added with the weights of SQ and CS.
--
-- A test of independent items has the signal-to-noise ratio sum(effect) / sqrt(sum(noise_variance)).
-- The set of items with the highest ratio is the set whose effect / noise_variance is above a
-- threshold, so only the first n items in this order are compared. Few checkpoints estimate the noise
-- variance of an item poorly, so the mean over all items is added to each (steady_variance).
-- unconstrained: number of items that are chosen without a minimum and maximum.

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
        avg(change ** 2) / 2 as noise_variance,
        avg(score) as score
    from steps
    group by model, item
),

of_items as (
    select
        item,
        avg(rise) as rise,
        avg(noise_variance) as noise_variance,
        avg(score) as score
    from of_models
    group by item
),

gaps as (
    select
        science.item,
        avg(science.score - web.score) as gap
    from item_scores as science
    inner join item_scores as web using (item, shape, progress)
    where science.recipe = 'science' and web.recipe = 'web'
    group by science.item
),

measured as (
    select
        of_items.*,
        gaps.gap,
        $weight_sq
        * coalesce(of_items.rise / nullif(stddev_pop(of_items.rise) over (), 0), 0)
        + $weight_cs
        * coalesce(gaps.gap / nullif(stddev_pop(gaps.gap) over (), 0), 0) as effect,
        of_items.noise_variance + avg(of_items.noise_variance) over () as steady_variance
    from of_items
    left join gaps on of_items.item = gaps.item
),

ordered as (
    select
        *,
        coalesce(effect / nullif(steady_variance, 0), 0) as merit
    from measured
),

numbered as (
    select
        *,
        -- rounded: sums of floats differ in their last bits between runs
        row_number() over (order by round(merit, 10) desc nulls last, item asc) as place
    from ordered
),

prefixes as (
    select
        *,
        sum(effect) over (order by place)
        / nullif(sqrt(sum(steady_variance) over (order by place)), 0) as prefix_snr
    from numbered
),

wanted as (
    select
        arg_max(place, prefix_snr) as unconstrained,
        arg_max(place, prefix_snr) filter (
            where place between $fewest_items and $most_items
        ) as size,
        count(*) as items
    from prefixes
),

best as (
    select
        coalesce(unconstrained, 0) as unconstrained,
        least(
            greatest(coalesce(size, 0), $fewest_items),
            $most_items,
            items
        ) as size
    from wanted
)

select
    prefixes.item,
    prefixes.rise,
    prefixes.noise_variance,
    prefixes.gap,
    prefixes.score,
    prefixes.merit,
    prefixes.place,
    prefixes.place <= best.size as is_chosen,
    best.unconstrained
from prefixes
cross join best
