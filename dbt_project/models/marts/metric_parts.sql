{{ config(materialized = 'view') }}
{#- A warehouse of scores made elsewhere has no metric_documents. -#}
{%- set relations = [] -%}
{%- set of_tokens = ref('metric_documents') -%}
{%- if not execute or load_relation(of_tokens) -%}
    {%- do relations.append(of_tokens) -%}
{%- endif -%}
{%- for plugin in context.keys() | sort if plugin.startswith('adds_metric_parts__') -%}
    {%- set given = context[plugin]() -%}
    {%- if given and load_relation(given) -%}
        {%- do relations.append(given) -%}
    {%- endif -%}
{%- endfor %}

{% for relation in relations -%}
select * from {{ relation }}
{{ 'union all by name' if not loop.last }}
{% endfor %}
