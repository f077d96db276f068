{#-
  Where the keys of an id's tokens begin, the key of a token being first_key + position: one
  integer to join on, several times faster than an id and a position. Keys number the ids of
  one query and mean nothing outside it.
-#}
{% macro first_key(ids) -%}
    dense_rank() over (order by {{ ids }}) * 4294967296
{%- endmacro %}

{% macro key_position(key) -%}
    cast({{ key }} % 4294967296 as integer)
{%- endmacro %}

{% macro key_start(key) -%}
    {{ key }} - {{ key }} % 4294967296
{%- endmacro %}
