{#-
  A build that can't lie: what dbt does before and after a run (dbt_project.yml).

  A variant's value is made by a chain of models, from stg_metric_variants over sums cut at its
  thresholds to metric_values. A selection that leaves out part of the chain would end green, with
  no value of a new variant, or a wrong one. So it is refused before anything runs, where a variant
  differs from what metric_catalog, the chain's end, was last built with; and so is a selection of
  an edited family without the tables that show its values. A build of shards selects parts on
  purpose, and together they are whole (warehouse/metrics/sharded).
-#}
{% macro refuse_partial_builds() -%}
    {%- if execute and flags.WHICH in ('run', 'build') and not env_var('TOKENMART_SHARE', '') -%}
        {%- set variants = 'model.' ~ project_name ~ '.stg_metric_variants' -%}
        {%- set readers = [variants, 'model.' ~ project_name ~ '.stg_metric_families'] -%}
        {%- for id, node in graph.nodes.items()
            if node.resource_type == 'model' and node.config.materialized != 'view'
            and variants in models_above([id]) -%}
            {%- do readers.append(id) -%}
        {%- endfor -%}
        {%- if readers | select('in', selected_resources) | list -%}
            {%- set ends = [] -%}
            {%- for name in ('metric_documents', 'metric_values', 'metric_catalog') -%}
                {%- do ends.append('model.' ~ project_name ~ '.' ~ name) -%}
            {%- endfor -%}
            {%- set below = models_above(ends[1:2], ends[:1]) -%}
            {%- for metric in changed_metrics() -%}
                {%- set family = 'model.' ~ project_name ~ '.' ~ metric -%}
                {%- set chain = models_above([family]) + below + [family] + ends -%}
                {{- refuse_to_leave_out(chain | select('in', readers), metric, 'variants differ') -}}
            {%- endfor -%}
            {%- for metric in edited_metrics() -%}
                {{- refuse_to_leave_out(ends, metric, 'SQL differs') -}}
            {%- endfor -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}

{% macro refuse_to_leave_out(needed, metric, what) -%}
    {%- set lacking = needed | reject('in', selected_resources) | unique | list -%}
    {%- if lacking -%}
        {%- do exceptions.raise_compiler_error(
            metric ~ ': its ' ~ what ~ ' from what was last built, and this selection leaves out '
            ~ lacking | map('replace', 'model.' ~ project_name ~ '.', '') | join(', ')
            ~ '; select +' ~ metric ~ '+, or build everything'
        ) -%}
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

{#- What metric_catalog was last built as; none when it wasn't, or by an older version. -#}
{% macro built_catalog() -%}
    {%- set node = graph.nodes['model.' ~ project_name ~ '.metric_catalog'] -%}
    {%- set catalog = adapter.get_relation(node.database, node.schema, node.alias) -%}
    {%- if catalog is not none -%}
        {%- set columns = adapter.get_columns_in_relation(catalog) | map(attribute = 'name') -%}
        {{- return(catalog if 'written' in columns | list else none) -}}
    {%- endif -%}
    {{- return(none) -}}
{%- endmacro %}

{#- Selected families whose SQL, or what it reads, is another than metric_catalog was built with. -#}
{% macro edited_metrics() -%}
    {%- set catalog = built_catalog() -%}
    {%- set edited = [] -%}
    {%- if catalog is not none -%}
        {%- set query -%} select distinct metric || ' ' || code from {{ catalog }} {%- endset -%}
        {%- set known = run_query(query).columns[0].values() -%}
        {%- for node in graph.nodes.values()
            if node.unique_id in selected_resources and node.resource_type == 'model'
            and node.config.meta.get('metric') -%}
            {%- if node.name ~ ' ' ~ local_md5(code_with_sources(node)) not in known -%}
                {%- do edited.append(node.name) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{- return(edited) -}}
{%- endmacro %}

{#- Metrics with a variant of this build that metric_catalog doesn't hold as it is written. -#}
{% macro changed_metrics() -%}
    {%- set catalog = built_catalog() -%}
    {%- set query -%}
        with variants as (
            {{ variants_in_use() }}
        )

        select metric, variant, written from variants
        {%- if catalog is not none %}
        except
        select metric, split_part(variant, '@', 1), written from {{ catalog }}
        {%- endif %}
        order by all
    {%- endset -%}
    {{- return(run_query(query).columns[0].values() | unique | list) -}}
{%- endmacro %}

{#- Says after a run that there is no value at all, or which families have none and why. -#}
{% macro name_missing_values() -%}
    {%- set values = 'model.' ~ project_name ~ '.metric_values' -%}
    {%- set built = results | selectattr('node.unique_id', 'equalto', values)
        | selectattr('status', 'equalto', 'success') | list -%}
    {%- if execute and built -%}
        {%- set query -%}
            with families as (
                select
                    problem,
                    metric,
                    mode(reason) as reason
                from {{ graph.nodes[values].relation_name }}
                group by problem, metric
                having count(value) = 0
            )

            select
                problem,
                if(
                    count(*) > 8,
                    concat(count(*), ' metrics'),
                    string_agg(metric, ', ' order by metric)
                ) as metrics,
                reason
            from families
            group by problem, reason
            order by problem, reason
        {%- endset -%}
        {%- set any = run_query('select 1 from ' ~ graph.nodes[values].relation_name ~ ' limit 1') -%}
        {%- if not any.rows | length -%}
            {%- do print(
                'metric_values is empty: nothing was extracted; run `tokenmart extract --problem '
                ~ 'minilong --demo`, or another problem'
            ) -%}
        {%- endif -%}
        {%- for problem, metrics, reason in run_query(query).rows -%}
            {%- do print(problem ~ ': no value of ' ~ metrics ~ ' for any model: ' ~ reason) -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro %}
