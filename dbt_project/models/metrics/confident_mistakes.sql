{{ metric(
    over = 'tokens',
    numerator = 'count_if(rank > 1)',
    where = 'top_logprob > ln(0.9)',
    variants = {'micro': {}},
    grid = {'macro': {'aggregation': 'macro'}},
) }}
