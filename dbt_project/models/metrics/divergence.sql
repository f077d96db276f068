{%- set quarters = {
    'first_quarter': 'position < 0.25 * document_tokens',
    'second_quarter': 'position >= 0.25 * document_tokens and position < 0.5 * document_tokens',
    'third_quarter': 'position >= 0.5 * document_tokens and position < 0.75 * document_tokens',
    'last_quarter': 'position >= 0.75 * document_tokens',
} %}
{%- set parts = {'mean_macro': {'aggregation': 'macro'}} %}
{%- for name, where in quarters.items() %}
    {%- do parts.update({'mean_' ~ name: {'where': where}}) %}
{%- endfor %}

{{ metric(
    over = 'divergence_tokens',
    numerator = 'sum(kl_reference_model)',
    variants = {
        'mean': {},
        'reverse': {'numerator': 'sum(kl_model_reference)'},
        'median': {
            'numerator': 'quantile_cont(kl_reference_model, 0.5)',
            'denominator': '1',
            'aggregation': 'macro'
        },
        'quantile_0.99': {
            'numerator': 'quantile_cont(kl_reference_model, 0.99)',
            'denominator': '1',
            'aggregation': 'macro'
        },
    },
    grid = parts,
) }}
