{#- Tokens of the words a variant asks for: numbers, or other words up to a frequency. -#}
{% macro word_band() -%}
    case variants.word_kind
            when 'number' then bands.is_number
            else not bands.is_number and bands.frequency_ceiling <= variants.max_frequency
        end
{%- endmacro %}
