-- Ids are hashes of content: of the token files, of the documents' texts, and of the SQL that makes
-- rows from them. The incremental tables keep the rows of ids that stay, and compute new ids.

with ledger as (
    select * from {{ source('extract', 'units') }}
    where status = 'done'
),

models as (
    select * from {{ source('extract', 'models') }}
),

needed as (
    select distinct
        problem,
        model_id,
        base_id,
        parameters,
        is_ranked
    from {{ source('extract', 'needed') }}
),

compared as (
    select * from {{ source('extract', 'contexts') }}
    where needs = 'window'
),

tokens as (
    select * from {{ source('extract', 'tokens') }}
),

corpora as (
    {{ corpora() }}
),

contexts as (
    select
        ledger.*,
        models.tokenizer_sha256,
        hash(
            ledger.problem,
            ledger.model_id,
            ledger.condition,
            ledger.doc_id,
            ledger.document_tokens,
            ledger.content_sha256,
            {{ code_of(['token_units', 'words', 'token_features', 'fct_tokens']) }}
        ) as context_id
    from ledger
    inner join models using (problem, model_id)
),

-- Models that share a tokenizer share a document's tokenization: that of the model with most rows.
tokenizations as (
    select
        contexts.problem,
        contexts.tokenizer_sha256,
        contexts.doc_id,
        contexts.model_id,
        contexts.condition,
        -- The number counts versions of a token's features: a higher one makes those of earlier
        -- builds again.
        hash(contexts.context_id, corpora.corpus_id, 2) as tokenization_id
    from contexts
    left join corpora using (problem)
    where contexts.condition_kind = 'full'
    qualify row_number() over (
            partition by contexts.problem, contexts.tokenizer_sha256, contexts.doc_id
            order by contexts.rows desc, contexts.model_id asc
        ) = 1
),

-- The characters that each context scored; `reduced_start` is where it sees less than all the text.
-- Summed up before the join: half the time of a join of tokens.
scored as (
    select
        problem,
        model_id,
        condition,
        doc_id,
        min(char_start) as first_character,
        min(char_start) filter (where context_tokens < position) as reduced_start,
        max(char_end) as last_character
    from tokens
    group by problem, model_id, condition, doc_id
),

spans as (
    select
        contexts.context_id,
        scored.* exclude (problem, model_id, condition, doc_id)
    from scored
    inner join contexts using (problem, model_id, condition, doc_id)
),

-- Characters that the tokens of every model reach: a part of the text is the same text for all
-- ranked models, also where documents are cut after a number of tokens.
text_ends as (
    select
        contexts.problem,
        contexts.doc_id,
        min(spans.last_character) as text_characters
    from contexts
    inner join spans using (context_id)
    where contexts.condition_kind = 'full' and contexts.is_ranked
    group by contexts.problem, contexts.doc_id
),

pairs as (
    select
        long_context.*,
        short_context.condition as short_condition,
        short_context.context_id as short_context_id,
        compared.context as pair
    from contexts as long_context
    inner join compared using (problem, condition)
    inner join contexts as short_context
        on long_context.problem = short_context.problem
        and long_context.model_id = short_context.model_id
        and long_context.doc_id = short_context.doc_id
        and compared.short_condition = short_context.condition
),

-- A document without any shorter context is a unit, too.
paired as (
    select * from pairs
    union all by name
    select * from contexts
    where condition_kind = 'full'
        and context_id not in (select pairs.context_id from pairs)
),

-- Characters that all ranked models scored in a pair of contexts: behind the window of the
-- tokenizer with the longest tokens, up to the end of the model that read least. Null where a model
-- has none.
common_text as (
    select
        paired.problem,
        paired.doc_id,
        paired.pair,
        max(if(paired.pair is null, long_span.first_character, short_span.reduced_start))
            as latest_start,
        min(least(long_span.last_character, short_span.last_character)) as common_end,
        if(
            count(if(paired.pair is null, long_span.first_character, short_span.reduced_start))
            = count(*),
            latest_start,
            null
        ) as common_start
    from paired
    left join spans as long_span on paired.context_id = long_span.context_id
    left join spans as short_span on paired.short_context_id = short_span.context_id
    where paired.is_ranked
    group by paired.problem, paired.doc_id, paired.pair
),

-- Checkpoints that the problem ranks, extracted or not; of a problem without a file, all.
sizes as (
    select
        models.problem,
        models.model_id,
        models.parameters
    from models
    left join needed using (problem, model_id)
    where models.base_id is null
        and (needed.is_ranked or models.problem not in (select asked.problem from needed as asked))
    union all
    select
        problem,
        model_id,
        parameters
    from needed
    where is_ranked
        and base_id is null
        and parameters is not null
),

-- The largest of them finds key tokens for others (longppl_external). An intervention on a
-- checkpoint (`base_id`) is none, and one that is not extracted has no substitute.
evaluators as (
    select
        problem,
        {% if var('evaluator', none) -%}
        '{{ var('evaluator') }}' as model_id
        {%- else -%}
        arg_max(model_id, (parameters, model_id)) as model_id
        {%- endif %}
    from sizes
    group by problem
),

token_units as (
    select
        paired.problem,
        paired.model_id,
        paired.doc_id,
        paired.pair,
        paired.condition,
        paired.short_condition,
        paired.document_tokens,
        text_ends.text_characters,
        common_text.common_start,
        common_text.common_end,
        paired.tokenizer_sha256,
        tokenizations.tokenization_id,
        (
            tokenizations.model_id = paired.model_id
            and tokenizations.condition = paired.condition
        ) as is_tokenization,
        coalesce(paired.model_id = evaluators.model_id, false) as is_evaluator,
        -- One pair of each full context, or its only row: metrics of the full context count these,
        -- so that a token counts once however many short contexts it is compared with.
        (
            paired.condition_kind = 'full'
            and row_number() over (
                partition by paired.context_id
                order by paired.pair
            ) = 1
        ) as is_first_pair,
        hash(
            paired.context_id,
            paired.short_context_id,
            tokenizations.tokenization_id,
            text_ends.text_characters,
            common_text.common_start,
            common_text.common_end,
            is_first_pair
        ) as unit_id
    from paired
    left join tokenizations using (problem, tokenizer_sha256, doc_id)
    left join text_ends using (problem, doc_id)
    left join common_text
        on paired.problem = common_text.problem
        and paired.doc_id = common_text.doc_id
        and paired.pair is not distinct from common_text.pair
    left join evaluators using (problem)
)

select * from token_units
