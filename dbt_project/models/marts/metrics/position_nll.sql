with documents as (
    {{ nll_over_regions('position_nll') }}
),

position_nll as (
    {{ per_document('documents') }}
)

select * from position_nll
