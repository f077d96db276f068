{#- Repeats of an n-gram whose last occurrence lies in a variant's band of distances. -#}
{% macro repeated_within(sums) -%}
    {%- set distance -%}
        case variants.ngram
            when 2 then {{ sums }}.bigram_distance_floor
            when 4 then {{ sums }}.fourgram_distance_floor
        end
    {%- endset -%}
    {{ distance }} >= coalesce(variants.from_distance, 0)
        and {{ distance }} < coalesce(variants.to_distance, 2147483647)
{%- endmacro %}
