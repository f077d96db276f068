-- of merges in the problem file, the runs of the weights that their recipes make

with merge_runs as (
    select merge_runs.*
    from {{ source('rankings', 'merge_runs') }} as merge_runs
    inner join {{ source('rankings', 'merge_entries') }} as entries
        on merge_runs.problem = entries.problem
        and merge_runs.model_id = entries.entry
        and merge_runs.fingerprint = entries.fingerprint
),

runs as (
    select
        *,
        list_filter(
            [
                if(seconds > limit_seconds, 'seconds', null),
                if(peak_bytes > limit_peak_bytes, 'peak_bytes', null),
                if(gpu_bytes > limit_gpu_bytes, 'gpu_bytes', null),
                if(disk_bytes > limit_disk_bytes, 'disk_bytes', null)
            ],
            lambda name: name is not null
        ) as over_limits
    from merge_runs
)

select
    problem,
    model_id as entry,
    stage,
    round,
    fingerprint,
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
    over_limits,
    nullif(ended, '') as ended,
    ended = '' and len(over_limits) = 0 as within_limits
from runs
