with documents as (
    {{ documents_over_regions(
        'position_gain',
        'int_region_pair_sums',
        numerator = "
            (sums.short_nll_sum - sums.nll_sum) / if(variants.unit = 'byte', ln(2), 1)
        ",
    ) }}
),

position_gain as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from position_gain
