{#- Records what each model of this run was built from: see warehouse/sql/problem_state.py. -#}
{% macro record_build(results) %}
    {%- set rows = [] -%}
    {%- set built = [] -%}
    {%- for result in results if result.node.resource_type == 'model' and result.status == 'success' -%}
        {%- set sources, parents = [], [] -%}
        {%- do code_behind(result.node, sources, parents) -%}
        {%- do built.append("'" ~ result.node.name ~ "'") -%}
        {%- do rows.append("('" ~ result.node.name ~ "', " ~ sources ~ ", " ~ parents ~ "::varchar[])") -%}
    {%- endfor -%}
    {%- if execute and built -%}
        create table if not exists main.built_tables (
            model varchar, sources varchar[], parents varchar[], problem varchar, parts map(varchar, varchar)
        );
        delete from main.built_tables where model in ({{ built | join(', ') }});
        insert into main.built_tables
        select
            models.*,
            problem_states.*
        from (values {{ rows | join(', ') }}) as models (model, sources, parents)
        left join main.problem_states on true;
    {%- endif -%}
    {%- if execute %}
        select refuse_changed_files()
    {%- endif -%}
{% endmacro %}

{#- Files and hashes of a model's SQL and of the ephemeral models in it; tables that it is built from. -#}
{% macro code_behind(node, sources, parents) %}
    {%- do sources.append(node.original_file_path ~ ' ' ~ local_md5(node.raw_code)) -%}
    {%- for name in node.depends_on.nodes if name in graph.nodes -%}
        {%- set parent = graph.nodes[name] -%}
        {%- if parent.config.materialized == 'ephemeral' -%}
            {%- do code_behind(parent, sources, parents) -%}
        {%- elif parent.resource_type == 'model' -%}
            {%- do parents.append(parent.name) -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}
