-- `harness`: as lm-evaluation-harness has it; `field`: as others define it; `ours`: neither.

with eval_metric_catalog as (
    select
        col0 as request_type,
        col1 as metric,
        col2 as measure,
        col3 as reading,
        col4 as weighted_by,
        col5 as aggregate,
        col6 as better,
        col7 as origin,
        col8 as formula
    from (
        values
        (
            'multiple_choice', 'acc', 'first_is_right', 'sum', 'item', 'mean', 'higher', 'harness',
            'argmax(ll) is right'
        ),
        (
            'multiple_choice', 'acc_norm', 'first_is_right', 'character',
            'item', 'mean', 'higher', 'harness',
            'argmax(ll / characters) is right'
        ),
        (
            'multiple_choice', 'acc_bytes', 'first_is_right', 'byte',
            'item', 'mean', 'higher', 'harness',
            'argmax(ll / bytes) is right'
        ),
        (
            'multiple_choice', 'acc_per_token', 'first_is_right', 'token',
            'item', 'mean', 'higher', 'field',
            'argmax(ll / tokens) is right'
        ),
        (
            'multiple_choice', 'acc_mutual_info', 'first_is_right', 'mutual_information',
            'item', 'mean', 'higher', 'harness',
            'argmax(ll - ll without the prompt) is right'
        ),
        (
            'multiple_choice', 'brier_score', 'brier', 'sum', 'item', 'mean', 'lower', 'harness',
            'sum of (p - right)², p = exp(ll) / sum of exp(ll)'
        ),
        (
            'multiple_choice', 'correct_prob', 'prob', 'sum', 'item', 'mean', 'higher', 'field',
            'exp(ll of the right choice)'
        ),
        (
            'multiple_choice', 'correct_prob_per_token', 'prob', 'token',
            'item', 'mean', 'higher', 'field',
            'exp(ll / tokens)'
        ),
        (
            'multiple_choice', 'correct_prob_per_char', 'prob', 'character',
            'item', 'mean', 'higher', 'field',
            'exp(ll / characters)'
        ),
        (
            'multiple_choice', 'uncond_correct_prob', 'prob', 'unconditional',
            'item', 'mean', 'higher', 'field',
            'exp(ll without the prompt)'
        ),
        (
            'multiple_choice', 'norm_correct_prob', 'share_of_total', 'sum',
            'item', 'mean', 'higher', 'field',
            'correct_prob / total_prob'
        ),
        (
            'multiple_choice', 'norm_correct_prob_per_token', 'share_of_total', 'token',
            'item', 'mean', 'higher', 'field',
            'correct_prob_per_token / total_prob_per_token'
        ),
        (
            'multiple_choice', 'norm_correct_prob_per_char', 'share_of_total', 'character',
            'item', 'mean', 'higher', 'field',
            'correct_prob_per_char / total_prob_per_char, OLMo''s soft'
        ),
        (
            'multiple_choice', 'total_prob', 'total_prob', 'sum', 'item', 'mean', 'higher', 'field',
            'sum of exp(ll) over choices'
        ),
        (
            'multiple_choice', 'total_prob_per_token', 'total_prob', 'token',
            'item', 'mean', 'higher', 'field',
            'sum of exp(ll / tokens)'
        ),
        (
            'multiple_choice', 'total_prob_per_char', 'total_prob', 'character',
            'item', 'mean', 'higher', 'field',
            'sum of exp(ll / characters)'
        ),
        (
            'multiple_choice', 'margin', 'margin', 'sum', 'item', 'mean', 'higher', 'field',
            'correct_prob - largest exp(ll) of the others'
        ),
        (
            'multiple_choice', 'margin_per_token', 'margin', 'token',
            'item', 'mean', 'higher', 'field',
            'the same of exp(ll / tokens)'
        ),
        (
            'multiple_choice', 'margin_per_char', 'margin', 'character',
            'item', 'mean', 'higher', 'field',
            'the same of exp(ll / characters)'
        ),
        (
            'multiple_choice', 'margin_mean', 'margin_mean', 'sum',
            'item', 'mean', 'higher', 'ours',
            'correct_prob - mean exp(ll) of the others'
        ),
        (
            'multiple_choice', 'loglik_margin', 'loglik_margin', 'sum',
            'item', 'mean', 'higher', 'field',
            'll of the right choice - largest of the others'
        ),
        (
            'multiple_choice', 'loglik_margin_per_token', 'loglik_margin', 'token',
            'item', 'mean', 'higher', 'ours',
            'the same of ll / tokens'
        ),
        (
            'multiple_choice', 'loglik_margin_per_char', 'loglik_margin', 'character',
            'item', 'mean', 'higher', 'ours',
            'the same of ll / characters'
        ),
        (
            'multiple_choice', 'loglik_margin_mean', 'loglik_margin_mean', 'sum',
            'item', 'mean', 'higher', 'field',
            'll of the right choice - mean of the others'
        ),
        (
            'multiple_choice', 'loglik_margin_mean_per_char', 'loglik_margin_mean', 'character',
            'item', 'mean', 'higher', 'ours',
            'the same of ll / characters'
        ),
        (
            'multiple_choice', 'gold_rank', 'rank', 'sum', 'item', 'mean', 'lower', 'ours',
            '1 + choices likelier than the right one'
        ),
        (
            'multiple_choice', 'correct_loglik', 'loglik', 'sum', 'item', 'mean', 'higher', 'field',
            'll of the right choice, nats'
        ),
        (
            'multiple_choice', 'bpb', 'bits', 'byte', 'item', 'mean', 'lower', 'field',
            '-ll / (bytes ln 2) of the right choice, mean over items'
        ),
        (
            'multiple_choice', 'bpb_corpus', 'bits', 'byte', 'bytes', 'mean', 'lower', 'field',
            '-sum(ll) / (sum(bytes) ln 2)'
        ),
        (
            'loglikelihood', 'acc', 'greedy', 'sum', 'item', 'mean', 'higher', 'harness',
            'each token of the continuation is the first choice'
        ),
        (
            'loglikelihood', 'perplexity', 'nll', 'sum', 'item', 'exp', 'lower', 'harness',
            'exp(-mean ll per item)'
        ),
        (
            'loglikelihood', 'correct_prob', 'prob', 'sum', 'item', 'mean', 'higher', 'field',
            'exp(ll)'
        ),
        (
            'loglikelihood', 'correct_prob_per_token', 'prob', 'token',
            'item', 'mean', 'higher', 'field',
            'exp(ll / tokens)'
        ),
        (
            'loglikelihood', 'bpb', 'bits', 'byte', 'item', 'mean', 'lower', 'field',
            '-ll / (bytes ln 2), mean over items'
        ),
        (
            'loglikelihood', 'bpb_corpus', 'bits', 'byte', 'bytes', 'mean', 'lower', 'field',
            '-sum(ll) / (sum(bytes) ln 2)'
        ),
        (
            'loglikelihood_rolling', 'word_perplexity', 'nll', 'word',
            'words', 'exp', 'lower', 'harness',
            'exp(-sum(ll) / sum(words)), words between runs of white space'
        ),
        (
            'loglikelihood_rolling', 'byte_perplexity', 'nll', 'byte',
            'bytes', 'exp', 'lower', 'harness',
            'exp(-sum(ll) / sum(bytes))'
        ),
        (
            'loglikelihood_rolling', 'bits_per_byte', 'bits', 'byte',
            'bytes', 'mean', 'lower', 'harness',
            '-sum(ll) / (sum(bytes) ln 2)'
        ),
        (
            'generate_until', 'exact_match', null, null, 'item', 'mean', 'higher', 'harness',
            'the answer behind the filter equals a right one'
        )
    )
)

select * from eval_metric_catalog
