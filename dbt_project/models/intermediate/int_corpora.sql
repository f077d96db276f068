with documents as (
    select * from {{ ref('stg_documents') }}
),

corpora as (
    select
        problem,
        hash(problem, string_agg(concat(doc_id, ':', sha256), ' ' order by doc_id)) as corpus_id
    from documents
    group by problem
)

select * from corpora
