-- Scores of models as parts of metrics, in the columns of metric_documents: one row per metric,
-- variant, model and document. A score per document is part of the mean over documents, and alone a
-- variant of its own where the problem asks for it. A score without documents is its own part.

with scores as (
    select * from {{ ref('stg_model_scores') }}
),

means as (
    select
        *,
        benchmark as variant
    from scores
),

alone as (
    select
        *,
        concat(benchmark, '/', document) as variant
    from scores
    where document is not null and each_document
),

parts as (
    select * from means
    union all by name
    select * from alone
)

select
    problem,
    metric,
    variant,
    benchmark,
    document,
    document is not null and variant != benchmark as is_one_document,
    direction,
    model_id,
    cast(doc_id as integer) as doc_id,
    score
from parts
