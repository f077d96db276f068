{%- set rare = 'not is_number and word_frequency <= 8' %}
{%- set seen = ' and word_distance_characters is not null' %}

{{ metric(
    over = 'common_pairs',
    numerator = 'sum(gain)',
    aggregations = {'_macro': 'macro'},
    variants = {
        'up_to_8_seen': {'where': rare ~ seen},
        'numbers': {'where': 'is_number'},
    },
    grid = {
        'once': {'where': 'not is_number and word_frequency = 1'},
        'twice': {'where': 'not is_number and word_frequency > 1 and word_frequency <= 2'},
        'up_to_8': {'where': rare},
        'up_to_8_new': {'where': rare ~ ' and word_distance_characters is null'},
        'up_to_64': {'where': 'not is_number and word_frequency <= 64'},
        'numbers_seen': {'where': 'is_number' ~ seen},
        'names_seen': {'where': 'is_name' ~ seen},
    },
) }}
