with documents as (
    {{ nll_over_bands('position_nll', position_band()) }}
),

position_nll as (
    {{ per_document('documents') }}
)

select * from position_nll
