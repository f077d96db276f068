{%- set soft = {} %}
{%- for gamma in [1.5, 2, 3, 5, 10, 20] %}
    {%- set weight = 'least(exp(gain), ' ~ gamma ~ ')' %}
    {%- do soft.update({'gamma_' ~ gamma: {
        'numerator': 'sum(' ~ weight ~ ' * nll)', 'denominator': 'sum(' ~ weight ~ ')'
    }}) %}
{%- endfor %}

{{ metric(
    over = 'token_pairs',
    transform = 'exp',
    aggregations = {'_by_length': 'weighted', '_macro': 'macro'},
    variants = {'gamma_5': soft.pop('gamma_5')},
    grid = soft,
) }}
