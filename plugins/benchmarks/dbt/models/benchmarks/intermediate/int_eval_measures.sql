{{ config(materialized = 'view') }}

with requests as (
    select * from {{ ref('int_eval_requests') }}
    where request_type != 'generate_until'
),

choices as (
    select
        asked.*,
        alone.loglikelihood as unconditional_loglikelihood
    from requests as asked
    left join requests as alone
        on asked.problem = alone.problem
        and asked.model_id = alone.model_id
        and asked.condition = alone.condition
        and asked.item = alone.item
        and asked.choice = alone.choice
        and alone.unconditional
    where not asked.unconditional
),

normalised as (
    select
        problem,
        model_id,
        condition,
        item,
        choice,
        is_gold,
        is_greedy,
        backend,
        unnest(
            [
                'sum', 'character', 'byte', 'continuation_byte', 'token', 'word',
                'mutual_information', 'unconditional'
            ]
        ) as normalisation,
        unnest([
            loglikelihood,
            loglikelihood / nullif(characters, 0),
            loglikelihood / nullif(bytes, 0),
            loglikelihood / nullif(strlen(continuation), 0),
            loglikelihood / tokens,
            loglikelihood / nullif(words, 0),
            loglikelihood - unconditional_loglikelihood,
            unconditional_loglikelihood
        ]) as score
    from choices
),

-- if several choices are right, the one with the highest log-likelihood counts
golds as (
    select
        *,
        max(score) over per_normalisation as best,
        max(score) filter (where is_gold) over per_normalisation as gold,
        max(score) filter (where not is_gold) over per_normalisation as best_other
    from normalised
    window per_normalisation as (partition by problem, model_id, condition, item, normalisation)
),

-- relative to the best choice: exp(score) of a long answer underflows to 0
shares as (
    select
        *,
        sum(exp(score - best)) over per_normalisation as relative_total
    from golds
    window per_normalisation as (partition by problem, model_id, condition, item, normalisation)
),

measured as (
    select
        problem,
        model_id,
        condition,
        item,
        normalisation,
        any_value(backend) as backend,
        any_value(gold) as gold,
        any_value(best) as best,
        any_value(best_other) as best_other,
        any_value(relative_total) as relative_total,
        cast(
            first(is_gold order by score desc nulls last, choice asc) as double
        ) as first_is_right,
        cast(bool_or(is_greedy) filter (where is_gold) as double) as gold_is_greedy,
        avg(score) filter (where not is_gold) as mean_other,
        avg(exp(score)) filter (where not is_gold) as mean_other_prob,
        if(
            any_value(gold) is not null,
            1 + count(*) filter (where not is_gold and score > gold),
            null
        ) as gold_rank,
        if(
            any_value(gold) is not null,
            sum(pow(exp(score - best) / relative_total - cast(is_gold as integer), 2)),
            null
        ) as brier
    from shares
    group by problem, model_id, condition, item, normalisation
    -- if no choice is right, all are wrong; if the right choice is unknown, there is no row
    having any_value(best) is not null and (any_value(gold) is not null or not bool_or(is_gold))
),

measures as (
    select
        problem,
        model_id,
        condition,
        item,
        normalisation,
        backend,
        unnest([
            'first_is_right', 'greedy', 'prob', 'share_of_total', 'total_prob', 'margin',
            'margin_mean', 'loglik_margin', 'loglik_margin_mean', 'rank', 'brier', 'loglik', 'nll',
            'bits'
        ]) as measure,
        unnest([
            first_is_right,
            gold_is_greedy,
            exp(gold),
            exp(gold - best) / relative_total,
            exp(best) * relative_total,
            exp(gold) - exp(best_other),
            exp(gold) - mean_other_prob,
            gold - best_other,
            gold - mean_other,
            gold_rank,
            brier,
            gold,
            0 - gold,
            (0 - gold) / ln(2)
        ]) as value  -- noqa: RF04
    from measured
)

select * from measures
where value is not null
