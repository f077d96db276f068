-- Four rungs at least: through three, a curve of three parameters is exact.
with rungs as (
    select * from {{ ref('ladder_rungs') }}
    where rungs >= 4
),

exponents as (
    select unnest(range(1, 301)) / 100 as exponent
),

-- For a given exponent the law is a line in (context / shortest context) ^ -exponent: only the
-- exponent is searched.
fits as (
    select
        rungs.problem,
        rungs.model_id,
        rungs.probe,
        rungs.doc_id,
        rungs.document_tokens,
        any_value(rungs.tokens) as tokens,
        exponents.exponent,
        regr_slope(rungs.nll, pow(2, -exponents.exponent * rungs.doublings)) as slope,
        regr_r2(rungs.nll, pow(2, -exponents.exponent * rungs.doublings)) as r_squared
    from rungs
    cross join exponents
    group by all
),

-- Where the NLL rises with the context, the law explains nothing.
falling as (
    select * replace (if(slope > 0, r_squared, 0) as r_squared)
    from fits
    where r_squared is not null
),

-- A best exponent at either end of the search isn't a minimum: the curve is no such law.
ladder_powers as (
    select
        problem,
        model_id,
        probe,
        doc_id,
        document_tokens,
        any_value(tokens) as tokens,
        arg_max(exponent, r_squared) as exponent,
        max(r_squared) as r_squared,
        max(r_squared) > 0
        and arg_max(exponent, r_squared) not in (min(exponent), max(exponent)) as is_fit
    from falling
    group by problem, model_id, probe, doc_id, document_tokens
)

select * from ladder_powers
