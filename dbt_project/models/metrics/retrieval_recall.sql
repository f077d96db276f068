{%- set one = {'aggregation': 'micro'} %}
{%- set prefix = {'numerator': 'sum(right_prefix)'} %}
{%- set accuracy, place = 'top_1 / tokens', 'first_position / document_tokens' %}

{{ metric(
    over = 'retrieval_excerpts',
    tokens = 'sum(tokens)',
    aggregations = {'_median_document': 'median'},
    variants = {
        'exact_match': dict(one, numerator='count_if(right_prefix = tokens)'),
        'prefix': prefix,
    },
    grid = {
        'first_token': dict(one, numerator='count_if(right_prefix > 0)'),
        'accuracy': {'numerator': 'sum(' ~ accuracy ~ ')'},
        'prefix_gain': {'numerator': 'sum(right_prefix - without_document_right_prefix)'},
        'worst_depth': {'numerator': 'min(' ~ accuracy ~ ')', 'denominator': '1'},
        'depth_slope': dict(
            one,
            numerator='regr_sxy(' ~ accuracy ~ ', ' ~ place ~ ')',
            denominator='regr_sxx(' ~ accuracy ~ ', ' ~ place ~ ')',
        ),
    },
) }}
