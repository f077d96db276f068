{%- set slopes = {} %}
{%- for first in [0, 16, 64, 256, 1024, 4096] %}
{%- for name, aggregation in [('pooled', 'micro'), ('mean', 'macro'), ('median', 'median')] %}
    {%- do slopes.update({name ~ '_from_' ~ first: {
        'where': 'position >= ' ~ first if first else 'true', 'aggregation': aggregation
    }}) %}
{%- endfor %}
{%- endfor %}

{{ metric(
    over = 'tokens',
    numerator = 'regr_sxy(nll, log2(position + 1))',
    denominator = 'regr_sxx(nll, log2(position + 1))',
    min_document_tokens = 256,
    variants = {'pooled_from_64': slopes.pop('pooled_from_64')},
    grid = slopes,
) }}
