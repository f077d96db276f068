-- A worked example: copy it, or run `tokenmart metrics new NAME`.

with confident_mistakes as (
    {{ token_metric(
        'confident_mistakes',
        where = 'top_logprob > ln(0.9)',
        numerator = 'count(*) filter (where rank > 1)',
    ) }}
)

select * from confident_mistakes
