{#- `without` names families that a build goes on without: see `tokenmart dbt --help`. -#}
with metric_documents as (
    {%- for family in listed_families() | reject('in', var('without', [])) %}
    select
        '{{ family }}' as metric,
        *
    from {{ ref(family) }}
    {%- if not loop.last %}
    union all by name
    {%- endif %}
    {%- endfor %}
)

select * from metric_documents
