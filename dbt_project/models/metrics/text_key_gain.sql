{%- set kinds = {
    'rare': 'not is_number and is_first_of_word and word_frequency <= 8',
    'numbers': 'is_number and is_first_of_word',
    'names': 'is_name and is_first_of_word',
    'any': 'is_first_of_word',
} %}
{%- set parts = {} %}
{%- for kind, which in kinds.items() %}
{%- for distance in [2048, 16384, 32768] %}
    {%- do parts.update({kind ~ '_beyond_' ~ distance: {
        'where': which ~ ' and word_distance_characters >= ' ~ distance
    }}) %}
{%- endfor %}
{%- endfor %}

{{ metric(
    over = 'common_pairs',
    numerator = 'sum(gain)',
    min_tokens = 10,
    aggregations = {'_macro': 'macro'},
    variants = {
        'rare_beyond_2048': parts.pop('rare_beyond_2048'),
        'rare_beyond_16384': parts.pop('rare_beyond_16384'),
    },
    grid = parts,
) }}
