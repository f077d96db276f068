with units as (
    select * from {{ ref('stg_units') }}
),

done as (
    select * from units
    where status = 'done'
),

probes as (
    select
        problem,
        model_id,
        probe,
        any_value(probe_kind) as kind,
        coalesce(any_value(json_extract_string(probe_params, '$.spec')), probe) as spec,
        any_value(cast(json_extract_string(probe_params, '$.context') as integer)) as context,
        any_value(cast(json_extract_string(probe_params, '$.stride') as integer)) as stride,
        count(*) as documents,
        sum(rows) as tokens,
        md5(string_agg(content_sha256, ' ' order by doc_id)) as version
    from done
    group by problem, model_id, probe
)

select * from probes
