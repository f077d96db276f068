with documents as (
    {{ documents_over_regions(
        'entropy_drop',
        'int_region_pair_sums',
        numerator = 'sums.short_entropy_sum - sums.entropy_sum',
        denominator = "if(variants.statistic = 'relative', sums.short_entropy_sum, sums.tokens)",
    ) }}
),

entropy_drop as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from entropy_drop
