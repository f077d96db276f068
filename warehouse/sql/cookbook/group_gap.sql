-- Gap between two models by group of documents (needs `tokenmart dbt build`)
-- Largest gap first. `documents_higher` counts the documents of a group in which model_a's value is
-- the higher one. Groups come from the problem file (`groups` or `group_field`).
-- param problem  -- which problem
-- param model_a  -- the first model
-- param model_b  -- the model that is subtracted
-- param metric = perplexity  -- name of the metric
-- param variant = micro  -- name of the variant
with by_document as (
    select
        documents.document_group,
        count(*) as documents,
        count(*) filter (
            where one.numerator / one.denominator > other.numerator / other.denominator
        ) as documents_higher
    from metric_documents as one
    inner join metric_documents as other
        using (problem, metric, variant, doc_id)
    inner join documents
        using (problem, doc_id)
    where
        one.problem = $problem
        and one.metric = $metric
        and one.variant = $variant
        and one.model_id = $model_a
        and other.model_id = $model_b
        and documents.document_group is not null
    group by documents.document_group
)

select
    by_document.document_group,
    one.value as value_a,
    other.value as value_b,
    one.value - other.value as gap,
    by_document.documents,
    by_document.documents_higher
from metric_groups as one
inner join metric_groups as other
    using (problem, metric, variant, document_group)
inner join by_document using (document_group)
where
    one.problem = $problem
    and one.metric = $metric
    and one.variant = $variant
    and one.model_id = $model_a
    and other.model_id = $model_b
order by abs(gap) desc, by_document.document_group
