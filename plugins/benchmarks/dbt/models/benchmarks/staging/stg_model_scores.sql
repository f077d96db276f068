with model_scores as (
    select * from {{ source('benchmarks', 'model_scores') }}
)

select
    *,
    dense_rank() over (partition by problem order by document) - 1 as doc_id
from model_scores
