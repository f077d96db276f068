-- Where answers were sampled more than once: how much of an exact match's error comes from sampling
-- answers (prediction noise), and how much from which items were asked (data noise).

with repeats as (
    select * from {{ ref('int_eval_repeats') }}
),

items as (
    select
        problem,
        model_id,
        condition,
        filter,
        item,
        count(*) as answers,
        avg(is_match) as item_mean,
        var_samp(is_match) as within_variance
    from repeats
    group by problem, model_id, condition, filter, item
    having count(*) > 1
),

summed as (
    select
        problem,
        model_id,
        condition,
        filter,
        count(*) as items,
        min(answers) as fewest_answers,
        avg(item_mean) as mean_match,
        avg(within_variance) as answer_variance,
        -- variance of a mean over items due to sampled answers, and its total variance
        sum(within_variance / answers) / count(*) ** 2 as prediction_variance,
        var_samp(item_mean) / count(*) as variance
    from items
    group by problem, model_id, condition, filter
)

select
    problem,
    model_id,
    condition,
    filter,
    cast(items as bigint) as items,
    cast(fewest_answers as bigint) as answers,
    cast(mean_match as double) as exact_match,
    cast(answer_variance as double) as answer_variance,
    cast(sqrt(variance) as double) as stderr,
    cast(sqrt(prediction_variance) as double) as prediction_stderr,
    cast(sqrt(greatest(0, variance - prediction_variance)) as double) as data_stderr
from summed
