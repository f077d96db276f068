{#- Distance to the last occurrence of the n-gram a variant asks for; null at its first. -#}
{% macro ngram_distance() -%}
    case variants.ngram
            when 2 then bands.bigram_distance_floor
            when 4 then bands.fourgram_distance_floor
        end
{%- endmacro %}

{#- Repeats of an n-gram whose last occurrence lies in a variant's band of distances. -#}
{% macro repeated_within() -%}
    {{ ngram_distance() }} >= coalesce(variants.from_distance, 0)
        and {{ ngram_distance() }} < coalesce(variants.to_distance, 2147483647)
{%- endmacro %}
