with probes as (
    select * from {{ ref('int_probes') }}
),

full_contexts as (
    select
        problem,
        model_id,
        probe,
        version
    from probes
    where kind = 'full'
)

select * from full_contexts
