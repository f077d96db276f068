{#- The metric families: models that declare `meta: metric:` in their own YAML. -#}

{#-
  One row per family, for the catalogue. dbt knows the families only when it executes; a linter
  sees no rows.
-#}
{% macro metric_family_rows() -%}
    {%- if execute -%}
        {%- for node in graph.nodes.values() | sort(attribute = 'name')
            if node.resource_type == 'model' and node.config.meta.get('metric') %}
    select
        {{ quoted(node.config.meta.metric) }} as metric,
        {{ quoted(node.config.meta.family) }} as family,
        {{ quoted(node.config.meta.direction) }} as direction,
        cast({{ node.config.meta.admissible }} as boolean) as admissible,
        {{ quoted(node.config.meta.needs) }} as needs,
        {{ quoted(node.description) }} as description
    union all
        {%- endfor -%}
    {%- endif %}
    select
        cast(null as varchar) as metric,
        cast(null as varchar) as family,
        cast(null as varchar) as direction,
        cast(null as boolean) as admissible,
        cast(null as varchar) as needs,
        cast(null as varchar) as description
    where false
{%- endmacro %}

{% macro quoted(text) -%}
    '{{ text | string | replace("'", "''") }}'
{%- endmacro %}

{#-
  Stops a run whose metric_values lists other families than there are. A listed family whose file
  is gone never comes here: dbt itself finds it missing while it parses, and names it.
-#}
{% macro refuse_unlisted_families() -%}
    {%- if execute -%}
        {%- set families = [] -%}
        {%- for node in graph.nodes.values()
            if node.resource_type == 'model' and node.config.meta.get('metric') -%}
            {%- do families.append(node.unique_id) -%}
        {%- endfor -%}
        {%- set listed = model.depends_on.nodes -%}
        {%- for id in families | reject('in', listed) | sort -%}
            {%- do exceptions.raise_compiler_error(
                'metric_values does not list the family ' ~ id.split('.')[-1]
                ~ '; run `tokenmart metrics refresh`'
            ) -%}
        {%- endfor -%}
        {%- for id in listed | reject('in', families) | sort -%}
            {%- do exceptions.raise_compiler_error(
                'metric_values lists ' ~ id.split('.')[-1]
                ~ ', whose YAML declares no meta.metric; run `tokenmart metrics refresh`'
            ) -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro %}
