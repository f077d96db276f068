{#-
  Cut points of the cumulative bands.

  A family never computes one filtered aggregate per variant (300 of them take minutes).
  Tokens are summed once per elementary band between the thresholds that occur in
  variants/*.csv; a variant adds up the bands on its side of the threshold.
-#}

{% macro distinct_edges(expressions) -%}
    {%- set variants = ref('stg_metric_variants') -%}
    {%- set edges = [] -%}
    {%- if execute -%}
        {%- set relation = load_relation(variants) -%}
        {%- if relation is not none -%}
            {%- set query -%}
                with edges as (
                    {% for expression in expressions -%}
                    select {{ expression }} as edge from {{ variants }}
                    {%- if not loop.last %} union {% endif %}
                    {% endfor -%}
                )
                select distinct cast(edge as varchar), edge
                from edges where edge is not null order by edge
            {%- endset -%}
            {%- set edges = run_query(query).columns[0].values() | list -%}
        {%- endif -%}
    {%- endif -%}
    {{- return(edges) -}}
{%- endmacro %}

{% macro position_edges() -%}
    {#- Powers of two for the position profile, and the positions variants ask for. -#}
    {{- return(distinct_edges([
        'from_position', 'to_position', 'unnest([2 ** n for n in range(5, 21)])::bigint'
    ])) -}}
{%- endmacro %}

{% macro tail_edges() -%}
    {{- return(distinct_edges(['tail_tokens'])) -}}
{%- endmacro %}

{% macro share_edges() -%}
    {{- return(distinct_edges(['from_share', 'to_share'])) -}}
{%- endmacro %}

{% macro gain_edges() -%}
    {#- Thresholds, clipping points, and where the soft weight exp(gain) meets its ceiling. -#}
    {{- return(distinct_edges(['alpha', 'ln(gamma)', 'clip', '-clip'])) -}}
{%- endmacro %}

{% macro logprob_edges() -%}
    {{- return(distinct_edges(['beta'])) -}}
{%- endmacro %}

{% macro frequency_edges() -%}
    {{- return(distinct_edges(['max_frequency'])) -}}
{%- endmacro %}

{% macro distance_edges() -%}
    {{- return(distinct_edges(['from_distance', 'to_distance'])) -}}
{%- endmacro %}

{% macro quantile_and_trim_edges() -%}
    {{- return(distinct_edges(['quantile', '-trim'])) -}}
{%- endmacro %}

{% macro evaluator_edges() -%}
    {#- Settings of variants with an external evaluator, as text: only their change matters. -#}
    {{- return(distinct_edges([
        "case when evaluator is not null then concat_ws(' ', evaluator, alpha, beta) end"
    ])) -}}
{%- endmacro %}

{% macro confidence_bins() -%}
    {#- The finest bins; coarser ones are sums of these. -#}
    {{- return(20) -}}
{%- endmacro %}

{% macro floor_edge(value, edges, operator, otherwise, type='double') -%}
    {#- The greatest edge with `value operator edge`; `otherwise` below all edges. -#}
    {{- first_edge(value, edges | reverse | list, operator, otherwise, type) -}}
{%- endmacro %}

{% macro ceiling_edge(value, edges, otherwise, type='bigint') -%}
    {#- The smallest edge with `value <= edge`; `otherwise` above all edges. -#}
    {{- first_edge(value, edges, '<=', otherwise, type) -}}
{%- endmacro %}

{% macro first_edge(value, edges, operator, otherwise, type) -%}
    {%- if edges -%}
    case
        {%- for edge in edges %}
        when {{ value }} {{ operator }} cast('{{ edge }}' as {{ type }})
            then cast('{{ edge }}' as {{ type }})
        {%- endfor %}
        else cast({{ otherwise }} as {{ type }})
    end
    {%- else -%}
    cast({{ otherwise }} as {{ type }})
    {%- endif -%}
{%- endmacro %}
