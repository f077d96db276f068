{#-
  Characters of a block of text (int_text_blocks); regular expressions repeat up to 1,000 times.
-#}
{% macro text_block_characters() -%}
    512
{%- endmacro %}

{#- UTF-8 bytes of a document's text before a character, from the block it lies in. -#}
{% macro bytes_before(character, block) -%}
    {{ block }}.bytes_before
        + strlen(substring({{ block }}.text, 1, {{ character }} % {{ text_block_characters() }}))
{%- endmacro %}

{#- The first character of the block that a character lies in. -#}
{% macro block_start(character) -%}
    {{ character }} - {{ character }} % {{ text_block_characters() }}
{%- endmacro %}
