{% test always(model, condition) %}
    select * from {{ model }}
    where not coalesce({{ condition }}, false)
{% endtest %}
