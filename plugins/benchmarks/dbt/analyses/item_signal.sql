-- What single items contribute over training, and which of them to keep. `tokenmart e2lm curate`
-- runs it on a table item_scores (model, checkpoint, progress, item, score, recipe, shape,
-- confidence, prompt_score).
--
-- rise: change of the score from the first checkpoint to the last, along a straight line, mean over
-- models. wobble: half the mean square of successive changes, the variance of what is no trend.
-- gap: score of models on science less that of models on web data, of one shape at one time.
-- effect: rise and gap, each in standard deviations over items, by the weights of SQ and CS.
--
-- Methods. signal: a test of independent items has signal-to-noise sum(effect) / sqrt(sum(wobble));
-- among all sets of items the best one is where effect / wobble is above a threshold, so that only
-- prefixes of that order need to be tried. The wobble of an item is known from a few checkpoints
-- only: the mean of all items' is added to each. rise: all items with a positive slope. easiest: the
-- half in which models are most confident. prompts: all but the tenth with the least likely prompts.

{% set method = var('method', 'signal') %}
{% set orders = {
    'signal': 'merit', 'rise': 'rise', 'easiest': 'confidence', 'prompts': 'prompt_score',
} %}

with steps as (
    select
        model,
        item,
        checkpoint,
        score,
        confidence,
        prompt_score,
        score - lag(score) over (partition by model, item order by checkpoint) as change
    from item_scores
),

of_models as (
    select
        model,
        item,
        regr_slope(score, checkpoint) * (max(checkpoint) - min(checkpoint)) as rise,
        avg(change ** 2) / 2 as wobble,
        avg(score) as score,
        avg(confidence) as confidence,
        avg(prompt_score) as prompt_score
    from steps
    group by model, item
),

of_items as (
    select
        item,
        avg(rise) as rise,
        avg(wobble) as wobble,
        avg(score) as score,
        avg(confidence) as confidence,
        avg(prompt_score) as prompt_score
    from of_models
    group by item
),

gaps as (
    select
        science.item,
        avg(science.score - web.score) as gap
    from item_scores as science
    inner join item_scores as web
        on science.item = web.item
        and science.shape = web.shape
        and science.progress = web.progress
    where science.recipe = 'science' and web.recipe = 'web'
    group by science.item
),

measured as (
    select
        of_items.*,
        gaps.gap,
        {{ var('weight_sq', 1) }}
        * coalesce(of_items.rise / nullif(stddev_pop(of_items.rise) over (), 0), 0)
        + {{ var('weight_cs', 0) }}
        * coalesce(gaps.gap / nullif(stddev_pop(gaps.gap) over (), 0), 0) as effect,
        of_items.wobble + avg(of_items.wobble) over () as sure_wobble
    from of_items
    left join gaps on of_items.item = gaps.item
),

ordered as (
    select
        *,
        coalesce(effect / nullif(sure_wobble, 0), 0) as merit
    from measured
),

numbered as (
    select
        *,
        row_number() over (order by {{ orders[method] }} desc nulls last, item asc) as place
    from ordered
),

prefixes as (
    select
        *,
        sum(effect) over (order by place)
        / nullif(sqrt(sum(sure_wobble) over (order by place)), 0) as prefix_snr
    from numbered
),

wanted as (
    select
        {% if method == 'signal' %}
            arg_max(place, prefix_snr) filter (
                where place between {{ var('fewest_items', 100) }} and {{ var('most_items', 15000) }}
            ) as size,
        {% elif method == 'rise' %}
            count(*) filter (where rise > 0) as size,
        {% elif method == 'easiest' %}
            ceil(count(*) / 2) as size,
        {% else %}
            ceil(count(*) * 0.9) as size,
        {% endif %}
        count(*) as items
    from prefixes
),

best as (
    select
        least(
            greatest(coalesce(size, 0), {{ var('fewest_items', 100) }}),
            {{ var('most_items', 15000) }},
            items
        ) as size
    from wanted
)

select
    prefixes.item,
    prefixes.rise,
    prefixes.wobble,
    prefixes.gap,
    prefixes.score,
    prefixes.confidence,
    prefixes.prompt_score,
    prefixes.merit,
    prefixes.place,
    prefixes.place <= best.size as is_chosen
from prefixes
cross join best
