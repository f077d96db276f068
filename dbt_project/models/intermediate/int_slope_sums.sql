{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(ref('int_regions'), ids = ['unit_id', 'regions_id']) }}",
) }}

with regions as (
    {{ missing_builds(ref('int_regions'), ids = ['unit_id', 'regions_id']) }}
        and units.region in (
            select variants.region from {{ ref('stg_metric_variants') }} as variants
            where variants.metric in ('nll_slope', 'nll_curvature')
        )
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

points as (
    select
        regions.build_id,
        regions.region,
        log2(token_stats.position + 1) as x,
        -cast(token_stats.logprob as double) as nll
    from token_stats
    inner join regions
        on {{ same_unit('token_stats', 'regions') }}
        and {{ in_region('token_stats', 'regions') }}
),

-- Sums of squares and products about the means: what least squares on x and x² need.
sums as (
    select
        build_id,
        region,
        count(*) as tokens,
        regr_sxx(nll, x) as s_x_x,
        regr_sxy(nll, x) as s_x_nll,
        regr_sxx(nll, x * x) as s_x2_x2,
        regr_sxy(nll, x * x) as s_x2_nll,
        regr_sxy(x * x, x) as s_x_x2
    from points
    group by build_id, region
),

slope_sums as (
    select
        regions.problem,
        regions.model_id,
        regions.condition,
        regions.doc_id,
        regions.document_tokens,
        sums.*
    from sums
    inner join regions
        on sums.build_id = regions.build_id
        and sums.region = regions.region
)

select * from slope_sums
