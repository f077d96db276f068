{{ metric(
    over = 'retrieval_controls',
    denominator = 'sum(tokens)',
    where = "control = 'foreign'",
    tokens = 'sum(tokens)',
    aggregations = {'_macro': 'macro'},
    variants = {'lookup': {'numerator': 'sum(nll - with_document_nll)'}},
    grid = {
        'topic': {'numerator': 'sum(without_document_nll - nll)'},
        'accuracy': {'numerator': 'sum(with_document_top_1 - top_1)'},
    },
) }}
