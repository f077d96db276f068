with terms as (
    {{ nll_over_bands('position_nll', position_band()) }}
),

position_nll as (
    {{ over_documents('position_nll', 'terms') }}
)

select * from position_nll
