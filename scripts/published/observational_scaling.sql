-- Eight benchmarks, size and training of 148 base models.

with lines as (
    select
        "Model" as model,
        "Model Family" as family,
        round(cast("Model Size (B)" as double) * 1e9) as parameters,
        round(cast("Pretraining Data Size (T)" as double) * 1e12) as training_tokens,
        round(cast("FLOPs (1E21)" as double) * 1e21) as training_flops,
        columns(* exclude (
            "Model", "Model Family", "Model Size (B)", "Pretraining Data Size (T)", "FLOPs (1E21)"
        ))::double
    from read_csv('eval_results/base_llm_benchmark_eval.csv', header = true, all_varchar = true)
),

measured as (
    unpivot (select *, parameters as size from lines)
    on columns(* exclude (model, family, size)) into name measure value score
)

select
    model,
    family,
    cast(size as bigint) as parameters,
    if(measure in ('parameters', 'training_tokens', 'training_flops'), 'model', measure) as benchmark,
    if(benchmark = 'model', measure, 'accuracy') as metric,
    'higher' as direction,
    score
from measured
