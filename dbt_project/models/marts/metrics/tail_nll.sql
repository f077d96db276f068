with documents as (
    {{ nll_over_regions('tail_nll') }}
),

tail_nll as (
    {{ per_document('documents') }}
)

select * from tail_nll
