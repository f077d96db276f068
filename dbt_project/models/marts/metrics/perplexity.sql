with terms as (
    {{ nll_over_bands('perplexity') }}
),

perplexity as (
    {{ over_documents('perplexity', 'terms', is_log = "terms.unit = 'token'") }}
)

select * from perplexity
