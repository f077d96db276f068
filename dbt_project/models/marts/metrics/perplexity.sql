with documents as (
    {{ nll_over_regions('perplexity') }}
),

perplexity as (
    {{ per_document('documents') }}
)

select * from perplexity
