with probes as (
    select * from {{ ref('int_probes') }}
),

full_context as (
    select * from probes
    where kind = 'full'
),

short_context as (
    select * from probes
    where kind = 'window'
),

contexts as (
    select
        short_context.problem,
        short_context.model_id,
        short_context.probe,
        full_context.probe as full_probe,
        short_context.context,
        short_context.stride,
        md5(concat(full_context.version, short_context.version)) as version
    from short_context
    inner join full_context
        on short_context.problem = full_context.problem
        and short_context.model_id = full_context.model_id
)

select * from contexts
