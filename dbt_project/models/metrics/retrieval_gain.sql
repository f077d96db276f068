{%- set part = {'aggregation': 'micro'} %}

{{ metric(
    over = 'retrieval_excerpts',
    numerator = 'sum(gain / tokens)',
    tokens = 'sum(tokens)',
    aggregations = {'_macro': 'macro'},
    variants = {
        'mean': {'aggregation': 'micro'},
        'from_first_tenth': dict(part, where='first_position < 0.1 * document_tokens'),
        'accuracy_gain': {'numerator': 'sum((top_1 - without_document_top_1) / tokens)'},
    },
    grid = {
        'macro': {'aggregation': 'macro'},
        'median': {'aggregation': 'median'},
        'worst_decile': {'aggregation': 'q10'},
        'relative': {'denominator': 'sum(without_document_nll / tokens)'},
        'share_positive': {'numerator': 'count_if(gain > 0)'},
        'from_first_third': dict(part, where='first_position < 0.333 * document_tokens'),
        'from_middle_third': dict(
            part,
            where='first_position >= 0.333 * document_tokens'
                ' and first_position < 0.667 * document_tokens',
        ),
        'near': dict(part, where='document_tokens - first_position < 16384'),
        'far': dict(part, where='document_tokens - first_position >= 16384'),
    },
) }}
