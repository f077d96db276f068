with documents as (
    {{ nll_over_bands('perplexity') }}
),

perplexity as (
    {{ per_document('documents') }}
)

select * from perplexity
