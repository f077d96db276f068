-- Every two models on the items that both answered. 2.801585 = 1.959964 + 0.841621: a two-sided
-- test at 5% detects a difference of this number of standard errors with 80% power.
--
-- Below 30 clusters, the normal interval is too narrow: an exact sign test over clusters must
-- agree. With fewer than 6 clusters no outcome of it has p <= 0.05 (five of five: 1/16), so there
-- is no verdict.

with item_metrics as (
    select * from {{ ref('eval_item_metrics') }}
    where value is not null
),

-- as the task says, else as the catalog of our own metrics does
directions as (
    select
        problem,
        condition,
        metric,
        any_value(better) as better
    from {{ ref('int_eval_scores') }}
    group by problem, condition, metric
),

catalog as (
    select * from {{ ref('eval_metric_catalog') }}
),

directed as (
    select
        item_metrics.*,
        coalesce(directions.better, catalog.better) as better,
        if(coalesce(directions.better, catalog.better) = 'lower', -1, 1) as sign
    from item_metrics
    left join directions
        on item_metrics.problem = directions.problem
        and item_metrics.condition = directions.condition
        and item_metrics.metric = directions.metric
    left join catalog
        on item_metrics.request_type = catalog.request_type
        and item_metrics.metric = catalog.metric
),

-- items that share a text are one cluster
clustered as (
    select
        one.problem,
        one.condition,
        one.filter,
        one.metric,
        one.model_id,
        other.model_id as other_model_id,
        any_value(one.better) as better,
        any_value(one.aggregate) as aggregate,
        count(*) as items,
        sum(one.weight) as weight,
        sum(one.weight * one.value) as weighted,
        sum(one.weight * other.value) as other_weighted,
        sum(one.weight * (one.value - other.value)) as difference,
        -- beyond are the last bits of sums, which must not break ties
        sign(round(sum(one.weight * (one.value - other.value)), 10)) as lead,
        count(*) filter (where one.sign * (one.value - other.value) > 0) as wins,
        count(*) filter (where one.value = other.value) as ties,
        count(*) filter (where one.sign * (one.value - other.value) < 0) as losses
    from directed as one
    inner join directed as other
        on one.problem = other.problem
        and one.condition = other.condition
        and one.filter = other.filter
        and one.metric = other.metric
        and one.item = other.item
        and one.model_id < other.model_id
    group by
        one.problem,
        one.condition,
        one.filter,
        one.metric,
        one.model_id,
        other.model_id,
        one.cluster
),

summed as (
    select
        problem,
        condition,
        filter,
        metric,
        model_id,
        other_model_id,
        any_value(better) as better,
        any_value(aggregate) as aggregate,
        sum(items) as items,
        count(*) as clusters,
        sum(weighted) / sum(weight) as mean_value,
        sum(other_weighted) / sum(weight) as other_mean_value,
        sum(difference) / sum(weight) as difference,
        sum(weight) as weights,
        sum(wins) as wins,
        sum(ties) as ties,
        sum(losses) as losses,
        count(*) filter (where lead > 0) as clusters_above,
        count(*) filter (where lead < 0) as clusters_below,
        sum(difference ** 2) as squares,
        sum(difference * weight) as products,
        sum(weight ** 2) as weight_squares
    from clustered
    group by problem, condition, filter, metric, model_id, other_model_id
),

-- sum over clusters of (their difference - weight · mean difference)², the last bits left out
spread as (
    select
        *,
        squares - 2 * difference * products + difference ** 2 * weight_squares as residual_squares
    from summed
),

erring as (
    select
        *,
        sqrt(
            if(residual_squares > 1e-12 * squares, residual_squares, 0)
            * clusters / nullif(clusters - 1, 0)
        ) / weights as stderr,
        -- two-sided binomial: 2 P(X <= the rarer sign) with X ~ B(n, 1/2)
        case
            when clusters_above + clusters_below <= 60
                then least(
                        1,
                        2 * list_sum(
                            list_transform(
                                range(0, least(clusters_above, clusters_below) + 1),
                                lambda k: exp(
                                    lgamma(clusters_above + clusters_below + 1)
                                    - lgamma(k + 1)
                                    - lgamma(clusters_above + clusters_below - k + 1)
                                    - (clusters_above + clusters_below) * ln(2)
                                )
                            )
                        )
                    )
        end as sign_p
    from spread
),

judged as (
    select
        *,
        case
            when clusters < 6 then 'too_few'
            when abs(difference) <= 1.959964 * stderr or difference = 0 then 'not_distinguishable'
            when clusters >= 30 then 'distinguishable'
            when sign_p <= 0.05 and sign(clusters_above - clusters_below) = sign(difference)
                then 'distinguishable'
            else 'not_distinguishable'
        end as verdict
    from erring
)

select
    problem,
    condition,
    filter,
    metric,
    model_id,
    other_model_id,
    better,
    cast(items as bigint) as items,
    cast(clusters as bigint) as clusters,
    cast(if(aggregate = 'exp', exp(mean_value), mean_value) as double) as value,  -- noqa: RF04
    cast(if(aggregate = 'exp', exp(other_mean_value), other_mean_value) as double) as other_value,
    cast(difference as double) as difference,
    cast(stderr as double) as stderr,
    cast(wins as bigint) as wins,
    cast(ties as bigint) as ties,
    cast(losses as bigint) as losses,
    -- equal differences on all items, such as ties, show no error to compute it from
    cast(
        case when verdict != 'too_few' then 2.801585 * nullif(stderr, 0) end as double
    ) as smallest_difference,
    cast(
        case
            when verdict != 'too_few' and difference != 0 and stderr > 0
                then greatest(2, ceil(items * (2.801585 * stderr / difference) ** 2))
        end as bigint
    ) as items_needed,
    verdict
from judged
