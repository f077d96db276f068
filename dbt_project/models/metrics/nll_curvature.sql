{#- The coefficient of x² beside that of x: what is left of both once x is regressed out. -#}
{%- set x = 'log2(position + 1)' %}
{%- set curves = {} %}
{%- for first in [0, 64, 256] %}
{%- for name, aggregation in [('pooled', 'micro'), ('mean', 'macro'), ('median', 'median')] %}
    {%- do curves.update({name ~ '_from_' ~ first: {
        'where': 'position >= ' ~ first if first else 'true', 'aggregation': aggregation
    }}) %}
{%- endfor %}
{%- endfor %}

{{ metric(
    over = 'tokens',
    numerator = 'regr_sxy(nll, {0} ** 2) - regr_sxy({0} ** 2, {0}) * regr_sxy(nll, {0})'
        ' / regr_sxx(nll, {0})'.format(x),
    denominator = 'regr_sxx(nll, {0} ** 2) - regr_sxy({0} ** 2, {0}) ** 2'
        ' / regr_sxx(nll, {0})'.format(x),
    min_document_tokens = 256,
    variants = {'pooled_from_64': curves.pop('pooled_from_64')},
    grid = curves,
) }}
