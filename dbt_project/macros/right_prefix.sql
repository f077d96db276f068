{#- First tokens of an answer that all were the model's first choice. -#}
{% macro right_prefix(answer) -%}
    coalesce(
            min({{ answer }}.position) filter (where {{ answer }}.rank > 1),
            max({{ answer }}.position) + 1
        ) - min({{ answer }}.position)
{%- endmacro %}
