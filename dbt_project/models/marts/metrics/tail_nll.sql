with documents as (
    {{ nll_over_bands('tail_nll', 'bands.tail_ceiling <= variants.tail_tokens') }}
),

tail_nll as (
    {{ per_document('documents') }}
)

select * from tail_nll
