{#-
  A metric of retrieval that reads the answers behind a control in the document's place.

  `own` is the statistic of what the document itself adds to the control, `rest` that of what the
  control adds to the excerpt alone; `accuracy` counts first choices behind both.
-#}
{% macro against_control(metric, control, own, rest) -%}
    with answers as (
        select * from {{ ref('int_retrieval_controls') }}
        where control = '{{ control }}'
    ),

    variants as (
        select * from {{ ref('stg_metric_variants') }}
        where metric = '{{ metric }}'
    ),

    documents as (
        select
            answers.problem,
            answers.model_id,
            answers.probe,
            answers.doc_id,
            answers.document_tokens,
            variants.variant,
            sum(
                case variants.statistic
                    when '{{ own }}' then answers.nll_sum - answers.with_document_nll_sum
                    when '{{ rest }}' then answers.without_document_nll_sum - answers.nll_sum
                    when 'accuracy' then answers.with_document_top_1 - answers.top_1
                end
            ) as numerator,
            sum(answers.tokens) as denominator,
            sum(answers.tokens) as tokens
        from answers
        cross join variants
        group by all
    )

    {{ per_document('documents', suffix = 'probe') }}
{%- endmacro %}
