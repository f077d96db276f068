{#- Records what each model of this run was built from: see warehouse/store/stored_files.py. -#}
{% macro record_build(results) %}
    {%- set built = [] -%}
    {%- for result in results if result.node.resource_type == 'model' and result.status == 'success' -%}
        {%- do built.append("'" ~ result.node.name ~ "'") -%}
    {%- endfor -%}
    {%- if execute and built -%}
        create table if not exists main.built_from (model varchar, problem varchar, state varchar);
        delete from main.built_from where model in ({{ built | join(', ') }});
        insert into main.built_from
        select
            model,
            problem,
            state
        from (select unnest([{{ built | join(', ') }}]) as model)
        left join main.store_states on true;
    {%- endif -%}
{% endmacro %}
