{%- set top_1 = {'numerator': 'count_if(rank = 1)'} %}
{%- set reciprocal = {'numerator': 'sum(1 / rank)'} %}
{%- set parts = {'second_half': 'position >= 0.5 * document_tokens'} %}
{%- for k in [512, 1024, 2048] %}
    {%- do parts.update({'last_' ~ k: 'position >= document_tokens - ' ~ k}) %}
{%- endfor %}
{%- set grid = {
    'top_5': {'numerator': 'count_if(rank <= 5)'},
    'top_10': {'numerator': 'count_if(rank <= 10)'},
} %}
{%- for part, where in parts.items() %}
    {%- do grid.update({
        'top_1_' ~ part: dict(top_1, where=where, aggregation='micro'),
        'reciprocal_rank_' ~ part: dict(reciprocal, where=where, aggregation='micro'),
    }) %}
{%- endfor %}

{{ metric(
    over = 'tokens',
    aggregations = {'_macro': 'macro', '_worst_decile': 'q10'},
    variants = {'top_1': top_1, 'reciprocal_rank': reciprocal},
    grid = grid,
) }}
