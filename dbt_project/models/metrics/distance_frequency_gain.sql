{%- set distances = {
    'near': 'word_distance_characters < 2048',
    'middle': 'word_distance_characters >= 2048 and word_distance_characters < 16384',
    'far': 'word_distance_characters >= 16384',
} %}
{%- set frequencies = {
    'rare': 'word_frequency <= 8',
    'common': 'word_frequency > 8 and word_frequency <= 128',
    'frequent': 'word_frequency > 128',
} %}
{%- set cells = {} %}
{%- for distance, how_far in distances.items() %}
{%- for frequency, how_often in frequencies.items() %}
    {%- do cells.update({distance ~ '_' ~ frequency: {
        'where': 'is_first_of_word and ' ~ how_often ~ ' and ' ~ how_far
    }}) %}
{%- endfor %}
{%- endfor %}

{{ metric(
    over = 'common_pairs',
    numerator = 'sum(gain)',
    min_tokens = 10,
    variants = {'far_rare': cells.pop('far_rare')},
    grid = cells,
) }}
