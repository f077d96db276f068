{{ metric(
    over = 'tokens',
    numerator = 'sum(nll)',
    transform = 'exp',
    min_tokens = 10,
    aggregations = {'_macro': 'macro'},
    variants = {
        'up_to_16': {'where': 'bigram_distance is not null and word_frequency <= 16'},
        'up_to_16_far': {'where': 'bigram_distance >= 1024 and word_frequency <= 16'},
    },
    grid = {
        'up_to_4': {'where': 'bigram_distance is not null and word_frequency <= 4'},
        'up_to_4_far': {'where': 'bigram_distance >= 1024 and word_frequency <= 4'},
    },
) }}
