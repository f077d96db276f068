{#-
  A whole metric from a condition on tokens and two aggregates: what most ideas need.

      {{ token_metric('confident_mistakes',
          where = 'top_logprob > ln(0.9)',
          numerator = 'count(*) filter (where rank > 1)') }}

  `context` says which rows the SQL snippets see:
  - 'full': tokens scored after the whole document (the columns of `tokens`);
  - 'window': tokens scored in both contexts (the columns of context_pairs, with `gain`).
  `features = true` adds what int_token_features says: word_distance, word_frequency, is_first, …
  Both aggregates run per document; the variants of the metric (variants/<metric>.csv) say
  how documents become one value.
-#}
{% macro token_metric(
    metric,
    where='true',
    numerator='-sum(logprob)',
    denominator='count(*)',
    context='full',
    features=false
) -%}
    {%- set suffix = none if context == 'full' else 'condition' -%}
    {%- set rows = ref('stg_token_stats') if context == 'full' else ref('context_pairs') -%}
    {%- set units = ref('int_full_units') if context == 'full' else ref('int_pair_units') -%}
    with variants as (
        select variant from {{ ref('stg_metric_variants') }}
        where metric = '{{ metric }}'
    ),

    chosen as (
        select
            units.problem,
            units.model_id,
            units.condition,
            units.doc_id,
            units.document_tokens,
            {%- if features %}
            token_features.* exclude (token_features_id, position),
            {%- endif %}
            scored.* exclude (problem, model_id, condition, doc_id)
        from {{ rows }} as scored
        inner join {{ units }} as units
            on {{ same_unit('scored', 'units') }}
        {%- if features %}
        inner join {{ ref('int_token_features') }} as token_features
            on units.token_features_id = token_features.token_features_id
            and scored.position = token_features.position
        {%- endif %}
    ),

    sums as (
        select
            problem,
            model_id,
            condition,
            doc_id,
            document_tokens,
            {{ numerator }} as numerator,
            {{ denominator }} as denominator,
            count(*) as tokens
        from chosen
        where {{ where }}
        group by problem, model_id, condition, doc_id, document_tokens
    ),

    documents as (
        select
            sums.*,
            variants.variant
        from sums
        cross join variants
    )

    {{ per_document('documents', suffix = suffix) }}
{%- endmacro %}
