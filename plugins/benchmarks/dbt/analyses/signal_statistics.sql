-- `seen`: read in the competition's own code. `inferred`: fitted to a figure it published. `ours`:
-- not the organisers'. `field`: as others define it.

with signal_statistics as (
    select
        col0 as statistic,
        col1 as per,
        col2 as origin,
        col3 as better,
        col4 as formula
    from (
        values
        (
            'monotonicity', 'run', 'seen', 'higher',
            'max(0, 1 - 6 sum(d²) / (n (n² - 1))) over the n early checkpoints, d = place in time -'
            || ' place by score; equal scores: the earlier checkpoint first'
        ),
        (
            'autocorrelation', 'run', 'seen', 'higher',
            'mean over lags 1 … floor(n / 4) - 1 of |Pearson(scores, scores that much earlier)|'
        ),
        ('sq', 'run', 'seen', 'higher', '(monotonicity + autocorrelation) / 2'),
        (
            'sq_low', 'run', 'seen', 'higher',
            'sq with equal scores in the order that gives the lowest (the later first); the'
            || ' competition''s notebook uses numpy''s default sort, whose order of equal scores'
            || ' depends on the processor'
        ),
        (
            'sq_high', 'run', 'seen', 'higher',
            'sq with equal scores in the order that gives the highest (that of sq): the'
            || ' earlier checkpoint first'
        ),
        (
            'monotonicity_average_ranks', 'run', 'ours', 'higher',
            'monotonicity with equal scores sharing their mean place'
        ),
        (
            'sq_average_ranks', 'run', 'ours', 'higher',
            '(monotonicity_average_ranks + autocorrelation) / 2'
        ),
        ('early_checkpoints', 'run', 'field', null, 'n, the checkpoints of the early window'),
        (
            'noise_sd', 'run', 'field', 'lower',
            'standard deviation (ddof 0) of the last checkpoints'
        ),
        ('noise_relative', 'run', 'field', 'lower', 'noise_sd / |their mean|'),
        (
            'sampling_error', 'run', 'field', 'lower',
            'mean standard error of the last checkpoints, as the table gives it'
        ),
        (
            'total_variation', 'run', 'field', 'lower',
            'mean |change| from one checkpoint to the next'
        ),
        ('rise_balance', 'run', 'field', 'higher', '(rises - falls) / steps'),
        (
            'weighted_score', 'run', 'seen', 'higher',
            'weight_sq sq + weight_rc rc + weight_cs cs; the organisers announced 0.5, 0.1, 0.4'
        ),
        (
            'signal', 'benchmark', 'field', 'higher',
            '(largest - smallest final score of the runs) / |their mean|'
        ),
        ('noise', 'benchmark', 'field', 'lower', 'mean of noise_relative over the runs'),
        ('snr', 'benchmark', 'field', 'higher', 'signal / noise'),
        (
            'decision_accuracy', 'benchmark', 'field', 'higher',
            'share of pairs of runs that the end of the early window orders as the end does; a tie'
            || ' is half. Of recipes, if the target has a size or no two runs have several'
            || ' checkpoints: the smallest size orders as the target''s or the largest one'
        ),
        (
            'decision_pairs', 'benchmark', 'field', 'higher',
            'number of pairs of decision_accuracy'
        ),
        (
            'target_decision_accuracy', 'benchmark', 'field', 'higher',
            'the same, with the final scores read in the target''s metric'
        ),
        (
            'target_decision_pairs', 'benchmark', 'field', 'higher',
            'number of pairs of target_decision_accuracy'
        ),
        (
            'rc', 'benchmark', 'inferred', 'higher',
            'mean over checkpoints after the early window of the share of pairs of runs ordered as'
            || ' by the mean of their early scores at checkpoints that both have'
        ),
        (
            'rc_last_early', 'benchmark', 'inferred', 'higher',
            'rc, ordered as by the last of these early scores'
        ),
        (
            'rc_last', 'benchmark', 'inferred', 'higher',
            'rc, ordered as by the last scores at a checkpoint that both have'
        ),
        (
            'cs', 'benchmark', 'ours', 'higher',
            'g / (g + s): g = max(0, mean early gap between runs on science and on web data), s ='
            || ' sqrt(mean square of successive changes / 2) of one curve'
        ),
        (
            'earliest_tokens', 'benchmark', 'field', 'lower',
            'tokens before the end from which all shared checkpoints rank the runs as the last does'
        ),
        (
            'earliest_share', 'benchmark', 'field', 'lower',
            'share of training, in steps of 5%, from which all shares rank the runs as the end does'
        ),
        (
            'earliest_share_95', 'benchmark', 'ours', 'lower',
            'the same for 95% of the pairs of runs: of many runs some end too close to call'
        )
    )
)

select * from signal_statistics
