{#-
  Incremental tables by unit. A unit is one document in one context condition, or in a pair of
  them. The ids that say what a row depends on are hashes, so whatever changes has another id:

  - unit_id: a unit of int_units or int_pair_units, with the content of its rows.
  - corpus_id: all documents of a problem (int_corpora).
  - tokenisation_id: how a tokenizer cuts a document; models that share it share this.
  - token_features_id: a tokenisation with the corpus its words are counted in, the key of
    int_token_words. Apart from the above, so that a new document leaves alone what reads
    tokens and no word.
  - regions_id: the regions of a unit's document that variants ask for (int_regions).
  - evaluator_unit_id: the unit_id, in int_pair_units, of the model that finds key tokens for
    others; key_characters_id: what it finds under the name it is asked for, the key of
    int_key_characters.
  - build_id: what a table computes from one unit. It hashes the unit's ids, the text of the
    model's SQL and of the incremental tables and views it reads, and the thresholds in use: what
    `thresholds`, columns or expressions, is in the rows of stg_metric_variants.

  `drop_stale_builds` (a pre-hook) forgets builds that nothing current asks for;
  `missing_builds` lists the units to compute.

  The tables of all tokens, int_context_pairs and int_token_*, have no build_id to save space:
  `code_of` puts the text of their SQL into the id of what they are computed from. They use
  `drop_stale_units` and `missing_units`.

  The text of a model's SQL holds that of the project's macros it uses, and that these use. So
  plain `dbt run` computes an edited model anew, with all that reads it, and so it does after the
  edit of a macro. A selection of the tables of all tokens without the units before them does not:
  it wants `dbt run --full-refresh`.
-#}

{% macro code_with_sources(node) -%}
    {%- set nodes = [node] + sources_of(node) -%}
    {%- set macros = [] -%}
    {%- for one in nodes -%}
        {{ one.raw_code }}
        {%- do macros_used(one.depends_on.macros, macros) -%}
    {%- endfor -%}
    {%- for id in macros | sort -%}
        {{ context[id.split('.')[-1]].macro.macro_sql }}
    {%- endfor -%}
{%- endmacro %}

{#- The incremental tables and views that a model reads, and what these read, each once. -#}
{% macro sources_of(node, found=none) -%}
    {%- set found = [] if found is none else found -%}
    {%- for id in node.depends_on.nodes | sort if id in graph.nodes -%}
        {%- set source = graph.nodes[id] -%}
        {%- if source.config.materialized in ('incremental', 'view') and source not in found -%}
            {%- do found.append(source) -%}
            {%- do sources_of(source, found) -%}
        {%- endif -%}
    {%- endfor -%}
    {{- return(found) -}}
{%- endmacro %}

{#- This project's macros among `ids`, with those they use, by id. -#}
{% macro macros_used(ids, found=none) -%}
    {%- set found = [] if found is none else found -%}
    {%- for id in ids if id.startswith('macro.' ~ project_name ~ '.') -%}
        {%- if id not in found -%}
            {%- do found.append(id) -%}
            {%- do macros_used(context[id.split('.')[-1]].macro.depends_on.macros, found) -%}
        {%- endif -%}
    {%- endfor -%}
    {{- return(found) -}}
{%- endmacro %}

{% macro code_of(name) -%}
    {#- a unit test sees no graph -#}
    {%- if execute and graph.nodes -%}
    '{{ local_md5(code_with_sources(graph.nodes['model.' ~ project_name ~ '.' ~ name])) }}'
    {%- else -%}
    ''
    {%- endif -%}
{%- endmacro %}

{% macro build_id(ids, thresholds) -%}
    {%- set code = local_md5(code_with_sources(model)) if execute -%}
    hash(
        units.{{ ids | join(', units.') }},
        '{{ code }}'
        {%- if thresholds %},
        (
            select bit_xor(hash(used))
            from (
                select distinct {{ thresholds | join(', ') }}
                from {{ ref('stg_metric_variants') }}
            ) as used
        )
        {%- endif %}
    )
{%- endmacro %}

{% macro missing_builds(units, ids=['unit_id'], thresholds=[]) -%}
    select
        units.*,
        {{ build_id(ids, thresholds) }} as build_id
    from {{ units }} as units
    where true
    {%- if is_incremental() %}
        and {{ build_id(ids, thresholds) }} not in (select distinct build_id from {{ this }})
    {%- endif %}
{%- endmacro %}

{% macro missing_units(units, id='unit_id') -%}
    select * from {{ units }}
    {% if is_incremental() -%}
    where {{ id }} not in (select distinct {{ id }} from {{ this }})
    {%- endif %}
{%- endmacro %}

{% macro drop_stale_builds(units, ids=['unit_id'], thresholds=[]) -%}
    {%- if is_incremental() -%}
    delete from {{ this }}
    where build_id not in (select {{ build_id(ids, thresholds) }} from {{ units }} as units)
    {%- else -%}
    select 1
    {%- endif -%}
{%- endmacro %}

{% macro drop_stale_units(units, id='unit_id') -%}
    {%- if is_incremental() -%}
    delete from {{ this }}
    where {{ id }} not in (select {{ id }} from {{ units }})
    {%- else -%}
    select 1
    {%- endif -%}
{%- endmacro %}
