{#-
  Pairs that say something about context: where the short context begins where the long one
  does, both runs read the same and the gain is zero, or rounding noise.
-#}
{% macro context_is_shorter() -%}
    short_context_tokens < context_tokens
{%- endmacro %}
