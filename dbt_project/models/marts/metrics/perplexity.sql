with terms as (
    {{ nll_over_bands('perplexity') }}
),

perplexity as (
    {{ over_documents('perplexity', 'terms', is_log = "variants.unit = 'token'") }}
)

select * from perplexity
