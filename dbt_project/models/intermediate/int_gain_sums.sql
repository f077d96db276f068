{% set gains = gain_edges() %}
{% set logprobs = logprob_edges() %}

{{ config(
    materialized = 'incremental',
    incremental_strategy = 'append',
    on_schema_change = 'sync_all_columns',
    pre_hook = "{{ drop_stale_partitions(
        ref('int_contexts'), [gain_edges(), logprob_edges()]
    ) }}",
) }}

with conditions as (
    {{ missing_partitions(ref('int_contexts'), [gains, logprobs]) }}
),

models as (
    select * from {{ ref('stg_models') }}
),

context_pairs as (
    select * from {{ ref('int_context_pairs') }}
),

shared_spans as (
    select * from {{ ref('int_token_features') }}
    where shares_span
),

pairs as (
    select
        conditions.problem,
        conditions.model_id,
        conditions.probe,
        conditions.version,
        context_pairs.doc_id,
        -cast(context_pairs.logprob as double) as nll,
        -cast(context_pairs.short_logprob as double) as short_nll,
        cast(context_pairs.logprob as double)
        - cast(context_pairs.short_logprob as double) as gain,
        context_pairs.char_end - context_pairs.char_start as characters,
        shared_spans.position is not null as shares_span
    from context_pairs
    inner join conditions
        on context_pairs.problem = conditions.problem
        and context_pairs.model_id = conditions.model_id
        and context_pairs.probe = conditions.probe
    left join models
        on context_pairs.problem = models.problem
        and context_pairs.model_id = models.model_id
    left join shared_spans
        on context_pairs.problem = shared_spans.problem
        and models.tokenizer_sha256 = shared_spans.tokenizer_sha256
        and context_pairs.doc_id = shared_spans.doc_id
        and context_pairs.position = shared_spans.position
),

banded as (
    select
        *,
        {{ floor_edge('gain', gains, '>', "'-infinity'") }} as gain_floor,
        {{ floor_edge('-nll', logprobs, '>', "'-infinity'") }} as logprob_floor
    from pairs
),

gain_sums as (
    select
        problem,
        model_id,
        probe,
        version,
        doc_id,
        gain_floor,
        logprob_floor,
        shares_span,
        count(*) as tokens,
        count(*) filter (where gain > 0) as tokens_with_gain,
        sum(nll) as nll_sum,
        sum(short_nll) as short_nll_sum,
        sum(gain) as gain_sum,
        sum(characters) as characters,
        sum(exp(gain)) as weight_sum,
        sum(exp(gain) * nll) as weighted_nll_sum
    from banded
    group by
        problem,
        model_id,
        probe,
        version,
        doc_id,
        gain_floor,
        logprob_floor,
        shares_span
)

select * from gain_sums
