-- A new metric adds its name here. Those that a selection leaves out, and that were never built,
-- are left out of the union.

{%- set metrics = [
    'calibration_error',
    'choice_divergence',
    'confident_mistakes',
    'context_gain',
    'distance_frequency_gain',
    'distance_slope',
    'entropy',
    'entropy_drop',
    'entropy_resolved',
    'forgetting_curve',
    'gain_quantile',
    'in_context_score',
    'induction_advantage',
    'induction_gain',
    'induction_nll',
    'key_share',
    'ladder_gain',
    'ladder_power',
    'ladder_reach',
    'longppl',
    'longppl_external',
    'longppl_soft',
    'min_context',
    'mutual_information',
    'needle_nll',
    'needle_recall',
    'needle_slope',
    'nll_curvature',
    'nll_quantile',
    'nll_slope',
    'perplexity',
    'position_gain',
    'position_nll',
    'rank',
    'rank_gain',
    'rare_recall',
    'rare_word_gain',
    'rare_word_nll',
    'retrieval_distance',
    'retrieval_gain',
    'retrieval_lookup',
    'retrieval_order',
    'retrieval_recall',
    'tail_nll',
    'text_key_gain',
    'text_key_ppl',
]
%}
{%- set built = [] -%}
{%- for metric in metrics -%}
    {%- set relation = ref(metric) -%}
    {%- if not execute or load_relation(relation) is not none -%}
        {%- do built.append(relation) -%}
    {%- endif -%}
{%- endfor %}

{% if var('shards', none) -%}
select * from read_parquet('{{ var('shards') }}/*/metric_documents.parquet')
{%- else -%}
{% for relation in built -%}
select * from {{ relation }}
{{ 'union all by name' if not loop.last }}
{% endfor -%}
{%- endif %}
