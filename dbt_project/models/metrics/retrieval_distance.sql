{{ metric(
    over = 'retrieval_controls',
    denominator = 'sum(tokens)',
    where = "control = 'tail'",
    tokens = 'sum(tokens)',
    aggregations = {'_macro': 'macro'},
    variants = {'beyond_tail': {'numerator': 'sum(nll - with_document_nll)'}},
    grid = {
        'tail': {'numerator': 'sum(without_document_nll - nll)'},
        'accuracy': {'numerator': 'sum(with_document_top_1 - top_1)'},
    },
) }}
