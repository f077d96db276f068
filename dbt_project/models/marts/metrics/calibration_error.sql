with confidence_bins as (
    select * from {{ ref('confidence_bins') }}
),

calibration_error as (
    {{ variant_sums(variants(metric = 'calibration_error'), suffix = 'pair') }}
)

select * from calibration_error
