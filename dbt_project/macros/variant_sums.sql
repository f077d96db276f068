{#-
  Numerator, denominator and number of tokens of variants, one row per document and variant.

  `rows` come from `variants()`. A row's `over` names the table, or the CTE, that its expressions
  read; variants that share a filter share a scan. The table has problem, model_id, doc_id,
  document_tokens and the column `suffix`; with `units`, the table has a unit_id, and the CTE of that
  name has these columns. The value of `suffix` follows the variant's name: `mean@window_512` compares
  the full context with the condition window_512.
-#}
{% macro variant_sums(rows, units=none, suffix='probe') -%}
    {%- set keys = ['unit_id'] if units
        else ['problem', 'model_id', 'doc_id', 'document_tokens', suffix] -%}
    {%- set suffixed = suffix if not units
        else "if(sums.over = 'token_pairs', units." ~ suffix ~ ', null)' -%}
    {%- set nothing = {
        'metric': '', 'variant': '', 'definition': '', 'over': units or 'documents',
        'where_clause': 'false', 'numerator': 'null', 'denominator': 'null', 'tokens': '0',
        'min_document_tokens': 1
    } %}
    select
        problem,
        sums.metric,
        concat_ws('@', sums.variant, {{ suffixed }}) as variant,
        model_id,
        doc_id,
        sums.numerator,
        sums.denominator,
        cast(document_tokens as double) as weight,
        sums.tokens
        {%- if units %},
        unit_id,
        sums.definition
        {%- endif %}
    from (
        {%- for over, rows_over in (rows or [nothing]) | groupby('over') %}
        {%- for where, same_filter in rows_over | groupby('where_clause') %}
        select
            {{ keys | join(', ') }},
            unnest([
                {%- for row in same_filter %}
                {
                    'over': '{{ over }}',
                    'metric': '{{ row.metric }}',
                    'variant': '{{ row.variant }}',
                    'numerator': cast({{ row.numerator }} as double),
                    'denominator': cast({{ row.denominator }} as double),
                    'tokens': cast({{ row.tokens }} as bigint),
                    'least': {{ row.min_document_tokens }},
                    'definition': '{{ row.definition }}'
                }{{ ',' if not loop.last }}
                {%- endfor %}
            ]) as sums
        from {{ over }}
        where {{ where }}
        group by {{ keys | join(', ') }}
        {{ 'union all' if not loop.last }}
        {%- endfor %}
        {{ 'union all' if not loop.last }}
        {%- endfor %}
    ) as grouped
    {%- if units %}
    inner join {{ units }} using (unit_id)
    {%- endif %}
    where sums.denominator != 0
        and sums.tokens >= sums.least
{%- endmacro %}
