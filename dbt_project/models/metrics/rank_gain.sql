{{ metric(
    over = 'common_pairs',
    aggregations = {'_macro': 'macro', '_worst_decile': 'q10'},
    variants = {'top_1': {'numerator': 'count_if(rank = 1) - count_if(short_rank = 1)'}},
    grid = {
        'top_5': {'numerator': 'count_if(rank <= 5) - count_if(short_rank <= 5)'},
        'reciprocal_rank': {'numerator': 'sum(1 / rank - 1 / short_rank)'},
    },
) }}
