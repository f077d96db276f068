{%- set parts = {} %}
{%- for share in [0.5, 0.75, 0.9, 0.99] %}
    {%- do parts.update({'quantile_' ~ share: {
        'numerator': 'quantile_cont(nll, ' ~ share ~ ')'
    }}) %}
{%- endfor %}
{%- for percent, share in [(5, 0.05), (10, 0.1), (20, 0.2), (40, 0.4)] %}
    {%- do parts.update({'min_k_' ~ percent: {
        'numerator': "list_avg(list_sort(list(nll), 'desc')[:cast(ceil("
            ~ share ~ " * count(*)) as bigint)])"
    }}) %}
{%- endfor %}

{{ metric(
    over = 'tokens',
    denominator = '1',
    aggregation = 'macro',
    aggregations = {'_median_document': 'median'},
    variants = {'min_k_20': parts.pop('min_k_20')},
    grid = parts,
) }}
