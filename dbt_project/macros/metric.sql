{#-
  A metric whose variants are ratios of sums per document: the whole of most files in
  models/metrics.

  over: the rows that the expressions read, with one of
      'tokens'       fct_tokens, each token after the whole document once;
      'common_pairs' fct_tokens, tokens with a gain (scored after the longer and a shorter context)
                     in the characters that all models scored so: the default of gains, as windows
                     end at other characters for each tokenizer;
      'token_pairs'  all tokens with a gain, also in text that another model did not score;
      another table  with problem, model_id, doc_id, document_tokens and the column `suffix`.
  variants: name → settings (below), the core: what every build computes.
  grid: further variants, computed with `--vars 'grids: true'` or `'grids: [longppl]'`.
  aggregations: ending → aggregation: each variant that sets no aggregation is in the grid again,
      under its name with this ending.
  suffix: the column that follows the variant's name: `mean@window_512`.

  Settings of one variant, or of all as arguments of `metric`:
      numerator, denominator  SQL aggregates per document; the denominator is count(*) by default
      where                   filter on rows
      aggregation             how documents become one value: micro (sum of numerators / sum of
                              denominators), macro (mean of the documents' values), weighted (by
                              the documents' tokens), median, q10, q90
      transform               exp: of the value, last
      tokens                  number of tokens behind the value; count(*) by default
      min_tokens              fewer tokens in all documents: no value
      min_document_tokens     documents with fewer tokens don't count

  Imported log-probs may lack rank, entropy or top_logprob. Rows without a column that a variant
  reads are left out of it, or count_if(rank = 1) would be 0: it has no value then.
-#}
{% macro metric(over, variants, grid={}, aggregations={}, suffix='probe') -%}
    {%- set in_use = declare_variants(over, variants, grid, aggregations, kwargs) -%}
    {%- set token_filters = {
        'tokens': 'is_first_pair',
        'token_pairs': 'gain is not null',
        'common_pairs': 'gain is not null and is_common',
    } -%}
    {%- if over in token_filters -%}
        {{ metric_of_tokens(scans(in_use, token_filters[over]), over) }}
    {%- else -%}
        {{ metric_of_table(scans(in_use), over, suffix) }}
    {%- endif -%}
{%- endmacro %}

{#- A metric of fct_tokens: sums per unit (model, document and pair of contexts). -#}
{% macro metric_of_tokens(scans, over) -%}
    {%- set built = definitions_built(scans) -%}
with tokens as not materialized (
    select * from {{ ref('fct_tokens') }}
),

units as (
    select * from {{ ref('token_units') }}
),

    {%- if built %}
{{ kept_and_new_units(built) }}
    {%- endif %}

-- Variants with the same filter are computed together.
sums as (
    {%- for scan in scans %}
    select
        unit_id,
        '{{ scan.definition }}' as definition,
        {{ sums_of_variants(scan.variants) }}
    from tokens
    where {{ scan.filters | join('\n        and ') }}
    {%- if scan.definition in built %}
        and unit_id in (
            select new_units.unit_id from new_units where definition = '{{ scan.definition }}'
        )
    {%- endif %}
    group by unit_id
    {{- '\n    union all' if not loop.last }}
    {%- endfor %}
),

documents as (
    select
        sums.unit_id,
        sums.definition,
        units.problem,
        '{{ model.name }}' as metric,
        {{ 'sums.variant' if over == 'tokens' else "concat_ws('@', sums.variant, units.pair)" }} as variant,
        units.model_id,
        units.doc_id,
        sums.numerator,
        sums.denominator,
        cast(units.document_tokens as double) as weight,
        sums.tokens
    from sums
    inner join units using (unit_id)
    where sums.denominator != 0
        and sums.tokens >= sums.min_document_tokens
)

select * from documents
    {%- if built %}
union all
select * from kept
    {%- endif %}
{%- endmacro %}

{#- A metric of a table with a row for each document and `suffix`, or more. -#}
{% macro metric_of_table(scans, table, suffix) -%}
    {%- set keys = ['problem', 'model_id', 'doc_id', 'document_tokens', suffix] -%}
with {{ table }} as not materialized (
    select * from {{ ref(table) }}
),

-- Variants with the same filter are computed together.
sums as (
    {%- for scan in scans %}
    select
        {{ keys | join(',\n        ') }},
        {{ sums_of_variants(scan.variants) }}
    from {{ table }}
    where {{ scan.filters | join('\n        and ') }}
    group by {{ keys | join(', ') }}
    {{- '\n    union all' if not loop.last }}
    {%- endfor %}
),

documents as (
    select
        problem,
        '{{ model.name }}' as metric,
        concat_ws('@', variant, {{ suffix }}) as variant,
        model_id,
        doc_id,
        numerator,
        denominator,
        cast(document_tokens as double) as weight,
        tokens
    from sums
    where denominator != 0
        and tokens >= min_document_tokens
)

select * from documents
{%- endmacro %}

{#- One row per variant, with its sums: columns variant, numerator, denominator, tokens. -#}
{% macro sums_of_variants(variants) -%}
        unnest([
            {%- for row in variants %}
            {
                'variant': '{{ row.variant }}',
                'numerator': cast({{ row.numerator }} as double),
                'denominator': cast({{ row.denominator }} as double),
                'tokens': cast({{ row.tokens }} as bigint),
                'min_document_tokens': {{ row.min_document_tokens }}
            }{{ ',' if not loop.last }}
            {%- endfor %}
        ], recursive := true)
{%- endmacro %}

{#-
  Variants by filter: those with the same one share a scan of the rows, which is faster than FILTER
  clauses in one scan for all. Each scan has `filters`, `variants` and the hash of its definition.
-#}
{% macro scans(variants, token_filter=none) -%}
    {%- set nothing = {'variant': '', 'where': 'false', 'numerator': 'null', 'denominator': 'null',
        'tokens': '0', 'min_document_tokens': 1} -%}
    {%- set found = [] -%}
    {%- for _, rows in with_filters(variants or [nothing], token_filter)
        | groupby('filters', case_sensitive=true) -%}
        {%- do found.append({
            'filters': rows[0].filters,
            'variants': rows,
            'definition': local_md5(tojson(rows, sort_keys=true)),
        }) -%}
    {%- endfor -%}
    {{- return(found) -}}
{%- endmacro %}

{#- Variants with the list `filters`: their rows, their filter, columns that may be null. -#}
{% macro with_filters(variants, token_filter) -%}
    {%- set optional = ['rank', 'short_rank', 'entropy', 'short_entropy', 'top_logprob'] -%}
    {%- set found = [] -%}
    {%- for row in variants -%}
        {%- set filters = [] -%}
        {%- if token_filter -%}
            {%- do filters.append(token_filter) -%}
        {%- endif -%}
        {%- if row.where != 'true' or not token_filter -%}
            {%- do filters.append('(' ~ row.where ~ ')') -%}
        {%- endif -%}
        {%- set reads = row.numerator ~ ' ' ~ row.denominator ~ ' ' ~ row.where -%}
        {%- for column in optional
            if token_filter and modules.re.search('\\b' ~ column ~ '\\b', reads) -%}
            {%- do filters.append(column ~ ' is not null') -%}
        {%- endfor -%}
        {%- do found.append(dict(row, filters=filters)) -%}
    {%- endfor -%}
    {{- return(found) -}}
{%- endmacro %}
