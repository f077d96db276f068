with benchmark_scores as (
    select * from {{ source('benchmarks', 'benchmark_scores') }}
)

select * from benchmark_scores
