with copy_lengths as (
    select * from {{ ref('copy_lengths') }}
),

forgetting_curve as (
    {{ variant_sums(variants(metric = 'forgetting_curve')) }}
)

select * from forgetting_curve
