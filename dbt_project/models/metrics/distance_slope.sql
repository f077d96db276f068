{%- set words = {
    'rare': 'not is_number and is_first_of_word and word_frequency <= 8',
    'numbers': 'is_number and is_first_of_word',
    'names': 'is_name and is_first_of_word',
    'any': 'is_first_of_word',
} %}
{%- set slopes = {} %}
{%- for kind, which in words.items() %}
    {%- do slopes.update({kind: {'where': which ~ ' and word_distance_characters is not null'}}) %}
{%- endfor %}

{{ metric(
    over = 'common_pairs',
    numerator = 'regr_sxy(gain, floor(log2(word_distance_characters)))',
    denominator = 'regr_sxx(gain, floor(log2(word_distance_characters)))',
    min_document_tokens = 64,
    aggregations = {'_mean': 'macro', '_median': 'median'},
    variants = {'any': slopes.pop('any')},
    grid = slopes,
) }}
