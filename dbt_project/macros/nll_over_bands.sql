{#-
  NLL (or bits, for variants with the unit `byte`) and tokens (or bytes) of each document, over
  the elementary bands of int_position_sums that `band` keeps for a variant.
-#}
{% macro nll_over_bands(metric, band='true') -%}
    {{ terms_over_bands(
        metric,
        'int_position_sums',
        numerator = "sum(bands.nll_sum) / any_value(if(variants.unit = 'byte', ln(2), 1))",
        denominator = "sum(if(variants.unit = 'byte', bands.bytes, bands.tokens))",
        band = band,
    ) }}
{%- endmacro %}
