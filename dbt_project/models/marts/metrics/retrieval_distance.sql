-- The excerpt never stands in the document's end: what the whole adds comes from further back.
with retrieval_distance as (
    {{ against_control(
        'retrieval_distance', 'retrieval_tail', own = 'beyond_tail', rest = 'tail'
    ) }}
)

select * from retrieval_distance
