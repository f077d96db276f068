with confidence_bins as (
    select * from {{ ref('confidence_bins') }}
)

{{ variant_sums(variants(metric = 'calibration_error'), suffix = 'pair') }}
