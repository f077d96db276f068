{%- set slopes = {} %}
{%- for name, score in [
    ('gain', '(absent_nll - nll) / tokens'),
    ('nll', '-nll / tokens'),
    ('first_token', 'cast(first_token_right as integer)'),
] %}
    {%- do slopes.update({name: {
        'numerator': 'regr_sxy(' ~ score ~ ', depth)',
        'denominator': 'regr_sxx(' ~ score ~ ', depth)',
    }}) %}
{%- endfor %}

{{ metric(
    over = 'needle_answers',
    tokens = 'sum(tokens)',
    variants = {'gain': slopes.gain},
    grid = {
        'gain_mean': dict(slopes.gain, aggregation='macro'),
        'nll': slopes.nll,
        'first_token': slopes.first_token,
    },
) }}
