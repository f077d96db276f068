{{ config(materialized = 'view') }}
{#- A warehouse of scores made elsewhere has no metric_documents. -#}
{%- set of_tokens = ref('metric_documents') -%}
{%- set relations = [of_tokens] if not execute or load_relation(of_tokens) else [] %}

{% for relation in relations + plugin_relations('adds_metric_parts__') -%}
select * from {{ relation }}
{{ 'union all by name' if not loop.last }}
{% endfor %}
