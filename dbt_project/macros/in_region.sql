{#- Whether a token begins in a region of its document; see regions_of. -#}
{% macro in_region(tokens, regions) -%}
    {{ tokens }}.position >= {{ regions }}.from_position
        and {{ tokens }}.position < {{ regions }}.to_position
        and {{ tokens }}.char_start >= {{ regions }}.from_character
        and {{ tokens }}.char_start < {{ regions }}.to_character
{%- endmacro %}

{#- UTF-8 bytes of the characters from `first` to before `past`. -#}
{% macro bytes_between(text, first, past) -%}
    strlen(substring({{ text }}, {{ first }} + 1, {{ past }} - {{ first }}))
{%- endmacro %}
