{#- Filters inside the aggregates: all variants share one scan of the view. -#}
{%- set lengths = {} %}
{%- for n in range(1, 6) %}
    {%- set repeated = ' filter (where longest >= ' ~ n ~ ')' %}
    {%- do lengths.update({n ~ '_gram': {
        'numerator': 'sum(nll)' ~ repeated ~ ' / ln(2)',
        'denominator': 'sum(bytes)' ~ repeated,
        'tokens': 'sum(tokens)' ~ repeated,
    }}) %}
{%- endfor %}

{{ metric(
    over = 'repeat_lengths',
    suffix = 'pair',
    variants = {},
    grid = lengths,
) }}
