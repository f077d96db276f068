{%- set repeats = {} %}
{%- for n, column in [(2, 'bigram_distance'), (4, 'fourgram_distance')] %}
{%- for part, condition in [
    ('any', ' is not null'),
    ('near', ' < 128'),
    ('middle', ' >= 128 and ' ~ column ~ ' < 1024'),
    ('far', ' >= 1024'),
    ('beyond_window', ' > short_context_tokens'),
] %}
    {%- do repeats.update({n ~ '_gram_' ~ part: {'where': column ~ condition}}) %}
{%- endfor %}
{%- endfor %}

{{ metric(
    over = 'common_pairs',
    numerator = 'sum(gain)',
    aggregations = {'_macro': 'macro'},
    variants = {
        '2_gram_any': repeats.pop('2_gram_any'),
        '2_gram_beyond_window': repeats.pop('2_gram_beyond_window'),
    },
    grid = repeats,
) }}
