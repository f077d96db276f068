with variants as (
    {{ variants_query() }}
)

select * from variants
