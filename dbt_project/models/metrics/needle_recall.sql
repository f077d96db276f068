{%- set gain = {'numerator': 'sum(absent_nll - nll)', 'denominator': 'sum(tokens)'} %}

{{ metric(
    over = 'needle_answers',
    numerator = 'count_if(first_token_right)',
    tokens = 'sum(tokens)',
    variants = {'first_token': {}, 'gain': gain},
    grid = {
        'first_token_macro': {'aggregation': 'macro'},
        'first_token_early': {'where': 'depth <= 0.4'},
        'first_token_late': {'where': 'depth >= 0.6'},
        'all_tokens': {'numerator': 'count_if(all_tokens_right)'},
        'gain_macro': dict(gain, aggregation='macro'),
        'gain_early': dict(gain, where='depth <= 0.4'),
        'gain_late': dict(gain, where='depth >= 0.6'),
    },
) }}
