with recall_items as (
    select * from {{ source('extract', 'recall_items') }}
)

select * from recall_items
