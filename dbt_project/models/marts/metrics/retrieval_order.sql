-- The document's words without their order: what the order adds needs the passage itself.
with retrieval_order as (
    {{ against_control(
        'retrieval_order', 'retrieval_shuffled', own = 'order', rest = 'words'
    ) }}
)

select * from retrieval_order
