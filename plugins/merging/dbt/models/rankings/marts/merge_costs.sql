with runs as (
    select * from {{ ref('stg_merge_runs') }}
),

judged as (
    select
        *,
        -- what the watchdog ended has its reason already
        if(ended != '', ended, concat_ws(
            '; ',
            if(
                seconds > limit_seconds,
                concat(round(seconds, 1), ' seconds, ', limit_seconds, ' allowed'),
                null
            ),
            if(
                peak_bytes > limit_peak_bytes,
                concat(peak_bytes, ' bytes of memory, ', limit_peak_bytes, ' allowed'),
                null
            ),
            if(
                gpu_bytes > limit_gpu_bytes,
                concat(gpu_bytes, ' bytes of GPU memory, ', limit_gpu_bytes, ' allowed'),
                null
            ),
            if(
                disk_bytes > limit_disk_bytes,
                concat(disk_bytes, ' bytes of disk, ', limit_disk_bytes, ' allowed'),
                null
            )
        )) as reason
    from runs
),

merge_costs as (
    select
        problem,
        model_id as entry,
        stage,
        round,
        method,
        parameters,
        case
            when parameters <= 1e9 then 'up to 1B'
            when parameters <= 3e9 then 'up to 3B'
            when parameters <= 8e9 then 'up to 8B'
            else 'above 8B'
        end as size_class,
        checkpoint_bytes,
        seconds,
        peak_bytes,
        gpu_bytes,
        disk_bytes,
        reason = '' as within_limits,
        nullif(reason, '') as reason
    from judged
)

select * from merge_costs
