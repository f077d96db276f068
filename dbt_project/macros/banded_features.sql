{#-
  CTEs: the units of `units` with the first_key of their tokenisation, and one row per token of
  these tokenisations with its features, as far as variants tell them apart. Tokens outside
  words have no frequency and fall above all edges; first occurrences have no distance.
-#}
{% macro banded_features() -%}
    {%- set frequencies = frequency_edges() -%}
    {%- set distances = distance_edges() -%}
numbered_units as (
    select
        *,
        {{ first_key('token_features_id') }} as first_key
    from units
),

tokenisations as (
    select distinct
        token_features_id,
        first_key
    from numbered_units
),

banded_features as (
    select
        tokenisations.first_key + features.position as token_key,
        features.is_number,
        {{ ceiling_edge('features.word_frequency', frequencies, 2147483647, 'integer') }}
            as frequency_ceiling,
        {%- for ngram in ('bigram', 'fourgram') %}
        {%- set distance = 'features.' ~ ngram ~ '_distance' %}
        case
            when {{ distance }} is not null
                then {{ floor_edge(distance, distances, '>=', 0, 'integer') }}
        end as {{ ngram }}_distance_floor
        {%- if not loop.last %},{% endif %}
        {%- endfor %}
    from {{ ref('int_token_features') }} as features
    inner join tokenisations
        on features.token_features_id = tokenisations.token_features_id
)
{%- endmacro %}
