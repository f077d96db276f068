{%- set quarters = {
    'first_quarter': 'position < 0.25 * document_tokens',
    'second_quarter': 'position >= 0.25 * document_tokens and position < 0.5 * document_tokens',
    'third_quarter': 'position >= 0.5 * document_tokens and position < 0.75 * document_tokens',
    'last_quarter': 'position >= 0.75 * document_tokens',
} %}
{%- set parts = {'share_macro': {'aggregation': 'macro'}} %}
{%- for name, where in quarters.items() %}
    {%- do parts.update({'share_' ~ name: {'where': where}}) %}
{%- endfor %}

{{ metric(
    over = 'divergence_tokens',
    numerator = 'count(*) filter (where same_top)',
    variants = {'share': {}},
    grid = parts,
) }}
