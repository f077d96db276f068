{#-
  dbt-duckdb makes a table or view beside the old one, renames both and drops the old one: four
  statements where DuckDB replaces in one, which is as safe in a transaction. On a laptop they were
  a third of the time of a build.
-#}
{% materialization table, adapter='duckdb' %}
    {{- return({'relations': [create_or_replace('table')]}) -}}
{% endmaterialization %}

{% materialization view, adapter='duckdb' %}
    {{- return({'relations': [create_or_replace('view')]}) -}}
{% endmaterialization %}

{% macro create_or_replace(kind) -%}
    {%- set old = load_cached_relation(this) -%}
    {%- if old is not none and old.type != kind -%}
        {%- do adapter.drop_relation(old) -%}
    {%- endif -%}
    {%- set new = this.incorporate(type = kind) -%}
    {%- set query = compiled_code -%}
    {%- if config.get('contract').enforced -%}
        {%- do get_assert_columns_equivalent(query) -%}
        {%- set query = get_select_subquery(query) -%}
    {%- endif -%}
    {%- do run_hooks(pre_hooks) -%}
    {%- call statement('main') -%}
    create or replace {{ kind }} {{ new }} as (
        {{ query }}
    )
    {%- endcall -%}
    {%- do run_hooks(post_hooks) -%}
    {%- do adapter.commit() -%}
    {{- return(new) -}}
{%- endmacro %}
