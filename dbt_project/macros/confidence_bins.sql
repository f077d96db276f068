{#- The finest bins of int_confidence_sums; coarser ones are sums of these. -#}
{% macro confidence_bins() -%}
    {{- return(20) -}}
{%- endmacro %}
