{%- set parts = {} %}
{%- for alpha in [0.5, 1, 2] %}
{%- for beta in [-1, -2] %}
    {%- set is_key = 'gain > ' ~ alpha ~ ' and nll < ' ~ -beta %}
    {%- set name = '_alpha_' ~ alpha ~ '_beta_' ~ beta %}
    {%- set share = {'numerator': 'count_if(' ~ is_key ~ ')'} %}
    {%- do parts.update({
        'share' ~ name: share,
        'density' ~ name: dict(share, denominator='(max(char_end) - min(char_start)) / 1000'),
        'gain' ~ name: {'numerator': 'sum(gain)', 'where': is_key},
    }) %}
{%- endfor %}
{%- endfor %}

{{ metric(
    over = 'common_pairs',
    aggregations = {'_macro': 'macro'},
    variants = {'share_alpha_2_beta_-2': parts.pop('share_alpha_2_beta_-2')},
    grid = parts,
) }}
