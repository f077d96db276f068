{#-
  The octaves that sums over repeats are kept in, by the power of two that a distance in tokens
  begins with; null at first occurrences. Variants ask for powers of two.
-#}
{% macro repeat_octaves(repeats) -%}
    cast(floor(log2({{ repeats }}.bigram_distance)) as integer) as bigram_octave,
        cast(floor(log2({{ repeats }}.fourgram_distance)) as integer) as fourgram_octave
{%- endmacro %}

{#- Octave of the distance of the n-gram that a variant asks for. -#}
{% macro ngram_octave() -%}
    if(variants.ngram = 2, bands.bigram_octave, bands.fourgram_octave)
{%- endmacro %}

{#- Repeats of an n-gram whose last occurrence lies in a variant's range of distances. -#}
{% macro repeated_within() -%}
    {{ ngram_octave() }} >= coalesce(log2(variants.from_distance), 0)
        and {{ ngram_octave() }} < coalesce(log2(variants.to_distance), 64)
{%- endmacro %}
