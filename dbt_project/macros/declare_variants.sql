{#-
  Put variants into dbt's manifest, which is the catalogue: the settings of each that differ from
  `config.meta.defaults`. Returns those to compute, with all settings. A metric with SQL of its own
  gives its file's hash as `code`: a part of the definition.
-#}
{% macro declare_variants(over, variants, grid={}, aggregations={}, settings={}, code='') -%}
    {%- set known = {
        'numerator': none, 'denominator': 'count(*)', 'where': 'true', 'aggregation': 'micro',
        'transform': none, 'tokens': 'count(*)', 'min_tokens': 1, 'min_document_tokens': 1,
        'over': over, 'core': false, 'code': code,
    } -%}
    {%- set defaults = dict(known, **settings) -%}
    {%- set declared = {} -%}
    {%- do add_variants(declared, grid, aggregations, core=false) -%}
    {%- do add_variants(declared, variants, aggregations, core=true) -%}
    {%- set in_use = [] -%}
    {%- for name, own in declared.items() -%}
        {%- set row = dict(dict(defaults, **own), variant=name) -%}
        {%- do refuse_wrong_settings(row, known) -%}
        {%- if is_in_use(model.name, row.core) -%}
            {%- do in_use.append(row) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do config(meta={'metric': model.name, 'defaults': defaults, 'variants': declared}) -%}
    {%- do refuse_incomplete_metric() -%}
    {{- return(in_use) -}}
{%- endmacro %}

{#- Add variants, and each that sets no aggregation again for each ending, as a part of the grid. -#}
{% macro add_variants(declared, variants, aggregations, core) -%}
    {%- for name, own in variants.items() -%}
        {%- do declared.update({name: dict(own, core=true) if core else own}) -%}
        {%- for ending, aggregation in aggregations.items() if 'aggregation' not in own -%}
            {%- do declared.update({name ~ ending: dict(own, aggregation=aggregation)}) -%}
        {%- endfor -%}
    {%- endfor -%}
{%- endmacro %}

{% macro refuse_wrong_settings(row, known) -%}
    {%- for wrong in row.keys() | reject('in', known) | reject('eq', 'variant') -%}
        {{ exceptions.raise_compiler_error('variant ' ~ row.variant ~ ' has the setting ' ~ wrong
            ~ '; settings are ' ~ known.keys() | join(', ')) }}
    {%- endfor -%}
    {%- if row.aggregation not in ['micro', 'macro', 'weighted', 'median', 'q10', 'q90'] -%}
        {{ exceptions.raise_compiler_error('variant ' ~ row.variant ~ ' has the aggregation '
            ~ row.aggregation ~ '; write micro, macro, weighted, median, q10 or q90') }}
    {%- endif -%}
{%- endmacro %}

{#- A metric needs entries in its YAML, and its place in metric_documents. -#}
{% macro refuse_incomplete_metric() -%}
    {%- if execute and model.resource_type == 'model' -%}
        {%- for key in ['family', 'direction', 'needs'] | reject('in', model.config.meta) -%}
            {{ exceptions.raise_compiler_error(
                'write ' ~ key ~ ' under config, meta in ' ~ model.name ~ '.yml') }}
        {%- endfor -%}
        {%- if model.config.meta.direction not in ['higher', 'lower'] -%}
            {{ exceptions.raise_compiler_error(
                'direction in ' ~ model.name ~ '.yml is neither higher nor lower') }}
        {%- endif -%}
        {%- set list = graph.nodes['model.tokenmart.metric_documents'] -%}
        {%- if model.unique_id not in list.depends_on.nodes -%}
            {{ exceptions.raise_compiler_error(
                "add ref('" ~ model.name ~ "') to the list in metric_documents.sql") }}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}

{#- `yes` if a variant is computed: `--vars 'grids: true'` or `'grids: [METRIC]'` adds grids. -#}
{% macro is_in_use(metric, core) -%}
    {%- set grids = var('grids', false) -%}
    {{- 'yes' if core or grids is sameas true or metric in (grids or []) -}}
{%- endmacro %}
