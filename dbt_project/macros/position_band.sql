{#- Elementary bands of positions inside a variant's band, in tokens and in shares. -#}
{% macro position_band() -%}
    bands.position_floor >= coalesce(variants.from_position, 0)
        and bands.position_floor < coalesce(variants.to_position, 2147483647)
        and bands.share_floor >= coalesce(variants.from_share, 0)
        and bands.share_floor < coalesce(variants.to_share, 1)
{%- endmacro %}
