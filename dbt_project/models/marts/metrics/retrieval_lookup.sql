-- Another document has the topic at most: what the right one adds can only be looked up in it.
with retrieval_lookup as (
    {{ against_control(
        'retrieval_lookup', 'retrieval_foreign', own = 'lookup', rest = 'topic'
    ) }}
)

select * from retrieval_lookup
