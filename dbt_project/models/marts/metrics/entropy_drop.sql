with documents as (
    {{ terms_over_bands(
        'entropy_drop',
        'int_pair_sums',
        numerator = 'sum(bands.short_entropy_sum - bands.entropy_sum)',
        denominator = "sum(if(variants.statistic = 'relative', bands.short_entropy_sum, bands.tokens))",
    ) }}
),

entropy_drop as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from entropy_drop
