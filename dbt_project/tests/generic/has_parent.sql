{% test has_parent(model, parent, columns) %}
    select {{ columns | join(', ') }} from {{ model }}
    except
    select {{ columns | join(', ') }} from {{ parent }}
{% endtest %}
