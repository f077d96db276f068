{{ metric(
    over = 'common_pairs',
    numerator = 'count_if(short_rank > 1)',
    min_tokens = 10,
    aggregations = {'_macro': 'macro'},
    variants = {
        'right': {'where': 'rank = 1'},
        'right_and_sure': {'where': 'rank = 1 and top_logprob > ln(0.5)'},
    },
) }}
