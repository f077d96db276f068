with metric_documents as (
    {% for family in listed_families() %}
        select
            '{{ family }}' as metric,
            *
        from {{ ref(family) }}
        {% if not loop.last %}
            union all by name
        {% endif %}
    {% endfor %}
)

select * from metric_documents
