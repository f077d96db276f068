-- Limits between the columns of a token, and by its model's vocabulary: the rules of imports and of
-- `tokenmart data check` (warehouse/sql/token_rules.sql), which names the files. A warning: metrics
-- that read none of these columns are right.
{{ config(severity='warn') }}

select
    fct_tokens.*,
    main.contradicting_token_rule(
        -fct_tokens.nll,
        fct_tokens.rank,
        fct_tokens.top_logprob,
        fct_tokens.entropy,
        models.vocabulary
    ) as broken
from {{ ref('fct_tokens') }} as fct_tokens
inner join {{ ref('token_units') }} as token_units using (unit_id)
inner join {{ source('extract', 'models') }} as models
    on token_units.problem = models.problem and token_units.model_id = models.model_id
where broken is not null
