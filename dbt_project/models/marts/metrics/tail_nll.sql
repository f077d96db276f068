with terms as (
    {{ nll_over_bands('tail_nll', 'bands.tail_ceiling <= variants.tail_tokens') }}
),

tail_nll as (
    {{ over_documents('tail_nll', 'terms') }}
)

select * from tail_nll
