with benchmark_tables as (
    select * from {{ source('benchmarks', 'benchmark_tables') }}
)

select * from benchmark_tables
