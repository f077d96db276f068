-- `harness`: as in lm-evaluation-harness; `field`: in common use; `ours`: neither.

with measures as (
    select
        col0 as measure,
        col1 as better,
        col2 as aggregate,
        col3 as formula
    from (
        values
        ('first_is_right', 'higher', 'mean', 'argmax({}) is right'),
        ('brier', 'lower', 'mean', 'sum of (p - right)², p = exp({}) / sum of exp({})'),
        ('prob', 'higher', 'mean', 'exp({}) of the right choice'),
        ('share_of_total', 'higher', 'mean', 'exp({}) of the right choice / sum of exp({})'),
        ('total_prob', 'higher', 'mean', 'sum of exp({}) over choices'),
        ('margin', 'higher', 'mean', 'exp({}) of the right choice - largest of the others'),
        ('margin_mean', 'higher', 'mean', 'exp({}) of the right choice - mean of the others'),
        ('loglik_margin', 'higher', 'mean', '{} of the right choice - largest of the others'),
        ('loglik_margin_mean', 'higher', 'mean', '{} of the right choice - mean of the others'),
        ('rank', 'lower', 'mean', '1 + choices with a higher log-likelihood than the right one'),
        ('loglik', 'higher', 'mean', '{} of the right choice, nats'),
        ('bits', 'lower', 'mean', '-{} / ln 2'),
        ('greedy', 'higher', 'mean', 'each token of the continuation is the top-1 token'),
        ('nll', 'lower', 'exp', 'exp(-{})')
    )
),

normalisations as (
    select
        col0 as normalisation,
        col1 as term
    from (
        values
        ('sum', 'll'),
        ('character', 'll / characters'),
        ('byte', 'll / bytes'),
        ('continuation_byte', 'll / bytes of the continuation'),
        ('token', 'll / tokens'),
        ('word', 'll / words'),
        ('mutual_information', 'll - ll without the prompt'),
        ('unconditional', 'll without the prompt')
    )
),

metrics as (
    select
        'multiple_choice' as request_type,
        unnest([
            ('acc', 'first_is_right', 'sum', 'item', 'harness'),
            ('acc_norm', 'first_is_right', 'character', 'item', 'harness'),
            ('acc_bytes', 'first_is_right', 'byte', 'item', 'harness'),
            ('acc_per_token', 'first_is_right', 'token', 'item', 'field'),
            ('acc_mutual_info', 'first_is_right', 'mutual_information', 'item', 'harness'),
            ('brier_score', 'brier', 'sum', 'item', 'harness'),
            ('correct_prob', 'prob', 'sum', 'item', 'field'),
            ('correct_prob_per_token', 'prob', 'token', 'item', 'field'),
            ('correct_prob_per_char', 'prob', 'character', 'item', 'field'),
            ('uncond_correct_prob', 'prob', 'unconditional', 'item', 'field'),
            ('norm_correct_prob', 'share_of_total', 'sum', 'item', 'field'),
            ('norm_correct_prob_per_token', 'share_of_total', 'token', 'item', 'field'),
            ('norm_correct_prob_per_char', 'share_of_total', 'character', 'item', 'field'),
            ('total_prob', 'total_prob', 'sum', 'item', 'field'),
            ('total_prob_per_token', 'total_prob', 'token', 'item', 'field'),
            ('total_prob_per_char', 'total_prob', 'character', 'item', 'field'),
            ('margin', 'margin', 'sum', 'item', 'field'),
            ('margin_per_token', 'margin', 'token', 'item', 'field'),
            ('margin_per_char', 'margin', 'character', 'item', 'field'),
            ('margin_mean', 'margin_mean', 'sum', 'item', 'ours'),
            ('loglik_margin', 'loglik_margin', 'sum', 'item', 'field'),
            ('loglik_margin_per_token', 'loglik_margin', 'token', 'item', 'ours'),
            ('loglik_margin_per_char', 'loglik_margin', 'character', 'item', 'ours'),
            ('loglik_margin_mean', 'loglik_margin_mean', 'sum', 'item', 'field'),
            ('loglik_margin_mean_per_char', 'loglik_margin_mean', 'character', 'item', 'ours'),
            ('gold_rank', 'rank', 'sum', 'item', 'ours'),
            ('correct_loglik', 'loglik', 'sum', 'item', 'field'),
            ('bpb', 'bits', 'continuation_byte', 'item', 'field'),
            ('bpb_corpus', 'bits', 'continuation_byte', 'bytes of the continuation', 'field')
        ]) as metric
    union all
    select
        'loglikelihood' as request_type,
        unnest([
            ('acc', 'greedy', 'sum', 'item', 'harness'),
            ('perplexity', 'nll', 'sum', 'item', 'harness'),
            ('correct_prob', 'prob', 'sum', 'item', 'field'),
            ('correct_prob_per_token', 'prob', 'token', 'item', 'field'),
            ('correct_loglik', 'loglik', 'sum', 'item', 'field'),
            ('bpb', 'bits', 'continuation_byte', 'item', 'field'),
            ('bpb_corpus', 'bits', 'continuation_byte', 'bytes of the continuation', 'field')
        ]) as metric
    union all
    select
        'loglikelihood_rolling' as request_type,
        unnest([
            ('word_perplexity', 'nll', 'word', 'words', 'harness'),
            ('byte_perplexity', 'nll', 'byte', 'bytes', 'harness'),
            ('bits_per_byte', 'bits', 'byte', 'bytes', 'harness')
        ]) as metric
),

eval_metric_catalog as (
    select
        metrics.request_type,
        metrics.metric[1] as metric,
        measures.measure,
        normalisations.normalisation,
        metrics.metric[4] as weighted_by,
        measures.aggregate,
        measures.better,
        metrics.metric[5] as origin,
        replace(
            measures.formula,
            '{}',
            case
                when metrics.metric[4] != 'item'
                    then concat('sum(ll) / sum(', metrics.metric[4], ')')
                when measures.aggregate = 'exp' then concat('mean of ', normalisations.term)
                else normalisations.term
            end
        ) as formula
    from metrics
    inner join measures
        on metrics.metric[2] = measures.measure
    inner join normalisations
        on metrics.metric[3] = normalisations.normalisation
)

select * from eval_metric_catalog
