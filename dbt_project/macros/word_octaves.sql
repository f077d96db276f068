{#-
  The octaves that word sums are kept in: frequencies 1, 2, 3 to 4, 5 to 8, … by the power of two
  they reach, distances (characters to the word's last occurrence) 1, 2 to 3, 4 to 7, … by the
  one they begin with. Variants ask for powers of two, so adding one computes nothing anew.
-#}
{% macro word_octaves(words) -%}
    {{ words }}.is_number,
        {{ words }}.is_name,
        {{ words }}.is_first,
        cast(ceil(log2({{ words }}.word_frequency)) as integer) as frequency_octave,
        cast(floor(log2({{ words }}.word_distance_characters)) as integer) as distance_octave
{%- endmacro %}

{#- Tokens of the words that a variant asks for; `bands` are rows with word_octaves. -#}
{% macro word_band() -%}
    case variants.word_kind
            when 'number' then bands.is_number
            when 'name' then bands.is_name
            when 'word' then not bands.is_number
            else true
        end
        and (bands.is_first or not coalesce(variants.first_of_word, false))
        and bands.frequency_octave > coalesce(log2(variants.over_frequency), -1)
        and bands.frequency_octave <= coalesce(log2(variants.max_frequency), 64)
        and case variants.occurrence
            when 'first' then bands.distance_octave is null
            when 'repeated' then bands.distance_octave is not null
            else true
        end
        and (
            variants.from_distance is null
            or bands.distance_octave >= log2(variants.from_distance)
        )
        and (
            variants.to_distance is null
            or bands.distance_octave < log2(variants.to_distance)
        )
{%- endmacro %}
