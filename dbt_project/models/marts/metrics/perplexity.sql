with nll as (
    {{ nll_over_bands('perplexity') }}
),

terms as (
    select
        *,
        unit = 'token' as is_log
    from nll
),

perplexity as (
    {{ over_documents('perplexity', 'terms', is_log = 'terms.is_log') }}
)

select * from perplexity
