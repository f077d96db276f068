{#-
  A build that can't lie: what dbt does before and after a run (dbt_project.yml).

  A variant's value is made by a chain of models, from stg_metric_variants over sums cut at its
  thresholds to metric_values. A selection that leaves out part of the chain would end green, with
  no value of a new variant, or a wrong one. So it is refused before anything runs, where a variant
  differs from what metric_catalog, the chain's end, was last built with.
-#}
{% macro refuse_partial_builds() -%}
    {%- if execute and flags.WHICH in ('run', 'build') -%}
        {%- set variants = 'model.' ~ project_name ~ '.stg_metric_variants' -%}
        {%- set readers = [variants] -%}
        {%- for id, node in graph.nodes.items()
            if node.resource_type == 'model' and variants in models_above([id]) -%}
            {%- do readers.append(id) -%}
        {%- endfor -%}
        {%- set changed = changed_metrics() if readers | select('in', selected_resources) | list -%}
        {%- for metric in changed or [] -%}
            {%- set ends = ['model.' ~ project_name ~ '.' ~ metric] -%}
            {%- for name in ('metric_documents', 'metric_values', 'metric_catalog') -%}
                {%- do ends.append('model.' ~ project_name ~ '.' ~ name) -%}
            {%- endfor -%}
            {%- set chain = ends + models_above(ends[:1]) + models_above(ends[2:3], [ends[1]]) -%}
            {%- set lacking = chain | select('in', readers)
                | reject('in', selected_resources) | unique | list -%}
            {%- if lacking -%}
                {%- do exceptions.raise_compiler_error(
                    'variants/' ~ metric ~ '.csv or its grid differs from what was last built, and'
                    ~ ' this selection leaves out '
                    ~ lacking | map('replace', 'model.' ~ project_name ~ '.', '') | join(', ')
                    ~ '; select +' ~ metric ~ '+, or build everything'
                ) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro %}

{#- The models above others, by id; `found` are known already, and not looked above. -#}
{% macro models_above(ids, found=none) -%}
    {%- set found = [] if found is none else found -%}
    {%- for id in ids if id in graph.nodes -%}
        {%- for parent in graph.nodes[id].depends_on.nodes -%}
            {%- if parent in graph.nodes and parent not in found -%}
                {%- do found.append(parent) -%}
                {%- do models_above([parent], found) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{- return(found) -}}
{%- endmacro %}

{#- Metrics with a variant of this build that metric_catalog doesn't hold as it is written. -#}
{% macro changed_metrics() -%}
    {%- set node = graph.nodes['model.' ~ project_name ~ '.metric_catalog'] -%}
    {%- set catalog = adapter.get_relation(node.database, node.schema, node.alias) -%}
    {%- set query -%}
        with variants as (
            {{ variants_in_use() }}
        )

        select metric, variant, written from variants
        {%- if catalog is not none
            and 'written' in adapter.get_columns_in_relation(catalog) | map(attribute = 'name') | list %}
        except
        select metric, split_part(variant, '@', 1), written from {{ catalog }}
        {%- endif %}
        order by all
    {%- endset -%}
    {{- return(run_query(query).columns[0].values() | unique | list) -}}
{%- endmacro %}

{#- Says after a run which families have no value for any model, and why. -#}
{% macro name_missing_values() -%}
    {%- set values = 'model.' ~ project_name ~ '.metric_values' -%}
    {%- set built = results | selectattr('node.unique_id', 'equalto', values)
        | selectattr('status', 'equalto', 'success') | list -%}
    {%- if execute and built -%}
        {%- set query -%}
            select
                problem,
                metric,
                mode(reason) as reason
            from {{ graph.nodes[values].relation_name }}
            group by problem, metric
            having count(value) = 0
            order by problem, metric
        {%- endset -%}
        {%- for problem, metric, reason in run_query(query).rows -%}
            {%- do print(problem ~ ': no value of ' ~ metric ~ ' for any model: ' ~ reason) -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro %}
