{%- set exponent = {'numerator': 'sum(exponent)', 'where': 'is_fit'} %}
{%- set r_squared = {'numerator': 'sum(r_squared)'} %}

{{ metric(
    over = 'ladder_powers',
    denominator = '1',
    tokens = 'sum(tokens)',
    variants = {
        'exponent': dict(exponent, aggregation='median'),
        'r_squared': dict(r_squared, aggregation='macro'),
    },
    grid = {
        'exponent_macro': dict(exponent, aggregation='macro'),
        'r_squared_median': dict(r_squared, aggregation='median'),
        'share_fit': {'numerator': 'count_if(is_fit)', 'denominator': 'count(*)'},
    },
) }}
