{%- set last = {'where': 'position >= document_tokens - 1024', 'aggregation': 'micro'} %}
{%- set top_1_nll = {'numerator': 'sum(-top_logprob)'} %}
{%- set entropy = {'numerator': 'sum(entropy)'} %}
{%- set excess = {'numerator': 'sum(nll - entropy)'} %}
{%- set weighted = {'numerator': 'sum(entropy * nll)', 'denominator': 'sum(entropy)'} %}

{{ metric(
    over = 'tokens',
    aggregations = {'_macro': 'macro', '_worst_decile': 'q90'},
    variants = {'entropy': entropy, 'nll_minus_entropy': excess},
    grid = {
        'top_1_nll': top_1_nll,
        'entropy_last_1024': dict(entropy, **last),
        'nll_minus_entropy_last_1024': dict(excess, **last),
        'top_1_nll_last_1024': dict(top_1_nll, **last),
        'weighted_nll': dict(weighted, aggregation='micro'),
        'weighted_nll_macro': dict(weighted, aggregation='macro'),
    },
) }}
