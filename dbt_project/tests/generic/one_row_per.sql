{% test one_row_per(model, columns) %}
    select
        {{ columns | join(', ') }},
        count(*) as rows_found
    from {{ model }}
    group by all
    having count(*) > 1
{% endtest %}
