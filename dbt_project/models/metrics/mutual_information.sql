{{ metric(
    over = 'half_information',
    numerator = 'sum(information)',
    denominator = 'sum(tokens)',
    tokens = 'sum(tokens)',
    aggregations = {'_macro': 'macro'},
    variants = {
        'growth': {
            'numerator': 'sum(information) filter (where is_longest)',
            'denominator': 'sum(information) filter (where is_shortest)',
            'where': 'has_every_length',
            'aggregation': 'micro',
        },
        'longest': {'where': 'is_longest'},
    },
    grid = {'shortest': {'where': 'is_shortest'}},
) }}
