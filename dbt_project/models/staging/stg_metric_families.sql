with families as (
    {{ metric_family_rows() }}
)

select * from families
