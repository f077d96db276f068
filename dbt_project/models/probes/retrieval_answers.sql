with tokens as (
    {{ probe_tokens("starts_with(condition_kind, 'retrieval_')") }}
),

answers as (
    select
        problem,
        model_id,
        probe,
        doc_id,
        document_tokens,
        segment,
        condition_kind as kind,
        count(*) as tokens,
        -sum(cast(logprob as double)) as nll,
        count_if(rank = 1) as top_1,
        -- how many of its first tokens were all the model's top-1; null without ranks
        if(
            count(rank) = count(*),
            coalesce(min(position) filter (where rank > 1), max(position) + 1) - min(position),
            null
        ) as right_prefix,
        min(position) as first_position,
        min(char_start) as first_character
    from tokens
    group by all
)

select * from answers
