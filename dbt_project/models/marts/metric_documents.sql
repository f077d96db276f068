{{ config(materialized = 'view') }}

-- Every metric is in this list. Those that a selection leaves out, and that were never built, are
-- left out of the union.
{%- set metrics = [
    ref('calibration_error'),
    ref('choice_divergence'),
    ref('confident_mistakes'),
    ref('context_gain'),
    ref('context_gain_all_text'),
    ref('copying_bits_per_byte'),
    ref('distance_frequency_gain'),
    ref('distance_slope'),
    ref('divergence'),
    ref('entropy'),
    ref('entropy_drop'),
    ref('entropy_resolved'),
    ref('forgetting_curve'),
    ref('gain_quantile'),
    ref('in_context_score'),
    ref('induction_advantage'),
    ref('induction_gain'),
    ref('induction_nll'),
    ref('key_share'),
    ref('ladder_gain'),
    ref('ladder_power'),
    ref('ladder_reach'),
    ref('longppl'),
    ref('longppl_external'),
    ref('longppl_soft'),
    ref('min_context'),
    ref('min_k_plus_plus'),
    ref('mutual_information'),
    ref('needle_nll'),
    ref('needle_recall'),
    ref('needle_slope'),
    ref('nll_curvature'),
    ref('nll_quantile'),
    ref('nll_slope'),
    ref('perplexity'),
    ref('position_gain'),
    ref('position_nll'),
    ref('rank'),
    ref('rank_gain'),
    ref('rare_recall'),
    ref('rare_word_gain'),
    ref('rare_word_nll'),
    ref('retrieval_distance'),
    ref('retrieval_gain'),
    ref('retrieval_lookup'),
    ref('retrieval_order'),
    ref('retrieval_recall'),
    ref('same_top'),
    ref('tail_nll'),
    ref('text_key_gain'),
    ref('text_key_ppl'),
] %}
{%- set built = [] %}
{%- for metric in metrics if not execute or load_relation(metric) %}
    {%- do built.append(metric) %}
{%- endfor %}

{% for metric in built -%}
select
    problem,
    metric,
    variant,
    model_id,
    doc_id,
    numerator,
    denominator,
    weight,
    tokens
from {{ metric }}
{{ 'union all' if not loop.last }}
{% endfor -%}
