{{ metric(
    over = 'resolved_entropies',
    suffix = 'pair',
    numerator = 'sum(resolved_40)',
    denominator = 'sum(tokens)',
    where = 'alpha = 2',
    tokens = 'sum(tokens)',
    min_tokens = 10,
    aggregations = {'_macro': 'macro'},
    variants = {'share': {}, 'mean': {'numerator': 'sum(decrease_sum)'}},
    grid = {
        'share_above_0.2': {'numerator': 'sum(resolved_20)'},
        'share_from_1.5': {'where': 'alpha = 1.5'},
    },
) }}
