{%- set parts = {} %}
{%- for percent, share in [(5, 0.05), (10, 0.1), (20, 0.2), (40, 0.4)] %}
    {%- do parts.update({'min_k_' ~ percent: {
        'numerator': "list_avg(list_sort(list((entropy - nll) / sqrt(varentropy)))[:cast(ceil("
            ~ share ~ " * count(*)) as bigint)])"
    }}) %}
{%- endfor %}

{{ metric(
    over = 'tokens',
    where = 'varentropy > 0',
    denominator = '1',
    aggregation = 'macro',
    aggregations = {'_median_document': 'median'},
    variants = {},
    grid = parts,
) }}
