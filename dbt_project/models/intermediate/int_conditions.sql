with units as (
    select * from {{ ref('stg_units') }}
),

done as (
    select * from units
    where status = 'done'
),

conditions as (
    select
        problem,
        model_id,
        condition,
        any_value(condition_kind) as kind,
        any_value(probe) as probe,
        any_value(cast(json_extract_string(probe_params, '$.context') as integer)) as context,
        any_value(cast(json_extract_string(probe_params, '$.stride') as integer)) as stride,
        count(*) as documents,
        sum(rows) as tokens,
        md5(string_agg(content_sha256, ' ' order by doc_id)) as version
    from done
    group by problem, model_id, condition
)

select * from conditions
