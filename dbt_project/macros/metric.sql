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
    {%- set rows = [] -%}
    {%- for row in declare_variants(over, variants, grid, aggregations, kwargs) -%}
        {%- set reads = row.numerator ~ ' ' ~ row.denominator ~ ' ' ~ row.where -%}
        {%- set given = ['(' ~ row.where ~ ')'] -%}
        {%- for column in ['rank', 'short_rank', 'entropy', 'short_entropy', 'top_logprob']
            if over in ['tokens', 'token_pairs', 'common_pairs']
            and modules.re.search('\\b' ~ column ~ '\\b', reads) -%}
            {%- do given.append(column ~ ' is not null') -%}
        {%- endfor -%}
        {%- do rows.append(dict(row, given=given | join(' and '))) -%}
    {%- endfor -%}
    {%- set of_tokens = {
        'tokens': 'is_first_pair',
        'token_pairs': 'gain is not null',
        'common_pairs': 'gain is not null and is_common',
    } -%}
    {%- set table, filter, ending = over, 'true', suffix -%}
    {%- set keys = ['problem', 'model_id', 'doc_id', 'document_tokens', suffix] -%}
    {%- if over in of_tokens -%}
        {%- set table, filter, keys = 'fct_tokens', of_tokens[over], ['unit_id'] -%}
        {%- set ending = 'null' if over == 'tokens' else 'pair' -%}
    {%- endif -%}
    {#- Variants with one filter share a scan; FILTER clauses in one scan for all are slower. -#}
    {%- set nothing = {'variant': '', 'given': 'false', 'numerator': 'null', 'denominator': 'null',
        'tokens': '0', 'min_document_tokens': 1} -%}
    {%- set scans = [] -%}
    {%- for given, same_filter in (rows or [nothing]) | groupby('given', case_sensitive=true) -%}
        {%- set code = local_md5(tojson([filter, same_filter], sort_keys=true)) -%}
        {%- do scans.append({'given': given, 'rows': same_filter, 'code': code}) -%}
    {%- endfor -%}
    {#- A scan that the metric's table has rows of reads new units only; a new or changed one reads
        all. On 60 million rows a run with nothing to do would else take two thirds longer. -#}
    {%- set built = [] -%}
    {%- if over in of_tokens and execute and model.resource_type == 'model'
        and not should_full_refresh() and load_relation(this)
        and 'code' in adapter.get_columns_in_relation(this) | map(attribute = 'name') -%}
        {%- set found = run_query('select distinct code from ' ~ this).columns[0].values() -%}
        {%- set built = scans | map(attribute = 'code') | select('in', found) | list -%}
    {%- endif -%}
    {%- if built -%}
    {%- set codes = "'" ~ built | join("', '") ~ "'" -%}
with kept as (
    select * from {{ this }}
    where code in ({{ codes }})
        and unit_id in (select unit_id from {{ ref('token_units') }})
),

new_units as (
    select
        token_units.unit_id,
        scans.code
    from {{ ref('token_units') }} as token_units
    cross join (select unnest([{{ codes }}]) as code) as scans
    except
    select
        unit_id,
        code
    from kept
)

select * from kept
union all
    {%- endif %}
select
    {%- if over in of_tokens %}
    unit_id,
    code,
    {%- endif %}
    problem,
    '{{ model.name }}' as metric,
    concat_ws('@', part.variant, {{ ending }}) as variant,
    model_id,
    doc_id,
    part.numerator,
    part.denominator,
    cast(document_tokens as double) as weight,
    part.tokens
from (
    {%- for scan in scans %}
    select
        {{ keys | join(', ') }},
        '{{ scan.code }}' as code,
        unnest([
            {%- for row in scan.rows %}
            {
                'variant': '{{ row.variant }}',
                'numerator': cast({{ row.numerator }} as double),
                'denominator': cast({{ row.denominator }} as double),
                'tokens': cast({{ row.tokens }} as bigint),
                'least': {{ row.min_document_tokens }}
            }{{ ',' if not loop.last }}
            {%- endfor %}
        ]) as part
    from {{ ref(table) }}
    where {{ filter }} and {{ scan.given }}
    {%- if scan.code in built %}
        and unit_id in (select new_units.unit_id from new_units where code = '{{ scan.code }}')
    {%- endif %}
    group by {{ keys | join(', ') }}
    {{ 'union all' if not loop.last }}
    {%- endfor %}
) as parts
{%- if over in of_tokens %}
inner join {{ ref('token_units') }} using (unit_id)
{%- endif %}
where part.denominator != 0
    and part.tokens >= part.least
{%- endmacro %}

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
    {%- set found = {} -%}
    {%- for core, group in [(false, grid), (true, variants)] -%}
        {%- for name, own in group.items() -%}
            {%- do found.update({name: dict(own, core=true) if core else own}) -%}
            {%- for ending, aggregation in aggregations.items() if 'aggregation' not in own -%}
                {%- do found.update({name ~ ending: dict(own, aggregation=aggregation)}) -%}
            {%- endfor -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- set in_use = [] -%}
    {%- for name, own in found.items() -%}
        {%- set row = dict(dict(defaults, **own), variant=name) -%}
        {%- for wrong in row.keys() | reject('in', known) | reject('eq', 'variant') -%}
            {{ exceptions.raise_compiler_error('variant ' ~ name ~ ' has the setting ' ~ wrong
                ~ '; settings are ' ~ known.keys() | join(', ')) }}
        {%- endfor -%}
        {%- if row.aggregation not in ['micro', 'macro', 'weighted', 'median', 'q10', 'q90'] -%}
            {{ exceptions.raise_compiler_error('variant ' ~ name ~ ' has the aggregation '
                ~ row.aggregation ~ '; write micro, macro, weighted, median, q10 or q90') }}
        {%- endif -%}
        {%- if is_in_use(model.name, row.core) -%}
            {%- do in_use.append(row) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do config(meta = {'metric': model.name, 'defaults': defaults, 'variants': found}) -%}
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
    {{- return(in_use) -}}
{%- endmacro %}

{#- `yes` if a variant is computed: `--vars 'grids: true'` or `'grids: [METRIC]'` adds grids. -#}
{% macro is_in_use(metric, core) -%}
    {%- set grids = var('grids', false) -%}
    {{- 'yes' if core or grids is sameas true or metric in (grids or []) -}}
{%- endmacro %}
