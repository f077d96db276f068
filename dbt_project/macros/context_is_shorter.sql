{#-
  Pairs that say something about context: where the short context begins where the document
  does, both runs read the same and the gain is zero, or rounding noise. A token scored after the
  whole document has as many tokens of context as stand before it.
-#}
{% macro context_is_shorter() -%}
    short_context_tokens < position
{%- endmacro %}
