{%- set parts = {} %}
{%- for share in [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99] %}
    {%- do parts.update({'quantile_' ~ share: {
        'numerator': 'quantile_cont(gain, ' ~ share ~ ')'
    }}) %}
{%- endfor %}
{%- for share in [0.01, 0.05, 0.1, 0.25] %}
    {%- set cut = 'cast(floor(' ~ share ~ ' * count(*)) as bigint)' %}
    {%- do parts.update({'trimmed_' ~ share: {
        'numerator': 'list_avg(list_sort(list(gain))[' ~ cut ~ ' + 1:count(*) - ' ~ cut ~ '])'
    }}) %}
{%- endfor %}

{{ metric(
    over = 'common_pairs',
    denominator = '1',
    aggregation = 'macro',
    aggregations = {'_median_document': 'median'},
    variants = {
        'quantile_0.9': parts.pop('quantile_0.9'),
        'trimmed_0.05': parts.pop('trimmed_0.05'),
    },
    grid = parts,
) }}
