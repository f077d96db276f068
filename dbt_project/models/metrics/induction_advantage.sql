{%- set advantages = {} %}
{%- for column, tokens_before in [('bigram_distance', 1), ('fourgram_distance', 3)] %}
{%- for part, condition in [
    ('any', ' is not null'),
    ('near', ' < 128'),
    ('middle', ' >= 128 and ' ~ column ~ ' < 1024'),
    ('far', ' >= 1024'),
    ('beyond_4096', ' >= 4096'),
] %}
    {%- set repeated = column ~ condition %}
    {%- do advantages.update({(tokens_before + 1) ~ '_gram_' ~ part: {
        'numerator': 'avg(nll) filter (where ' ~ column ~ ' is null and position >= '
            ~ tokens_before ~ ') - avg(nll) filter (where ' ~ repeated ~ ')',
        'tokens': 'count_if(' ~ repeated ~ ')',
    }}) %}
{%- endfor %}
{%- endfor %}

{{ metric(
    over = 'tokens',
    denominator = '1',
    aggregation = 'macro',
    aggregations = {'_median': 'median'},
    variants = {'2_gram_any': advantages.pop('2_gram_any')},
    grid = advantages,
) }}
