{#-
  The parts of each unit's document that variants ask for, and the octaves of positions that
  position_profile shows: one row per unit and region. Whatever a variant says (tokens, shares
  of the length, the last so many, characters), a region becomes two half-open intervals, of
  positions and of characters, and holds the tokens that begin in both.

  regions_id hashes all regions of a unit: sums over them are computed anew when it changes.
-#}
{% macro regions_of(units) -%}
    with units as (
        select * from {{ units }}
    ),

    -- Characters that the tokens of every tokenizer reach: regions in characters are the same
    -- text for all models, also where documents are cut after so many tokens.
    texts as (
        select
            problem,
            doc_id,
            min(characters) as characters
        from {{ ref('int_text_ends') }}
        group by problem, doc_id
    ),

    asked_for as (
        select distinct
            region,
            from_position,
            to_position,
            tail_tokens,
            from_share,
            to_share,
            from_character,
            to_character,
            tail_characters,
            from_text_share,
            to_text_share
        from {{ ref('stg_metric_variants') }}
        union by name
        select distinct
            base_region as region,
            base_from_position as from_position,
            base_to_position as to_position
        from {{ ref('stg_metric_variants') }}
        where base_region is not null
        union by name
        select
            concat_ws(' ', 'octave', octave) as region,
            if(octave = 5, 0, 2 ** (octave - 1)) as from_position,
            2 ** octave as to_position
        from range(5, 24) as octaves(octave)
    ),

    -- greatest and least pass over nulls.
    bounded as (
        select
            units.problem,
            units.model_id,
            units.condition,
            units.doc_id,
            units.unit_id,
            units.document_tokens,
            asked_for.region,
            cast(greatest(
                0,
                asked_for.from_position,
                units.document_tokens - asked_for.tail_tokens,
                ceil(asked_for.from_share * units.document_tokens)
            ) as integer) as from_position,
            cast(least(
                units.document_tokens,
                asked_for.to_position,
                ceil(asked_for.to_share * units.document_tokens)
            ) as integer) as to_position,
            cast(greatest(
                0,
                asked_for.from_character,
                texts.characters - asked_for.tail_characters,
                ceil(asked_for.from_text_share * texts.characters)
            ) as integer) as from_character,
            cast(least(
                2147483647,
                asked_for.to_character,
                if(asked_for.tail_characters is not null, texts.characters, null),
                ceil(asked_for.to_text_share * texts.characters)
            ) as integer) as to_character
        from units
        inner join texts
            on units.problem = texts.problem
            and units.doc_id = texts.doc_id
        cross join asked_for
    )

    select
        *,
        bit_xor(hash(region, from_position, to_position, from_character, to_character))
            over (partition by unit_id) as regions_id
    from bounded
    where from_position < to_position
        and from_character < to_character
{%- endmacro %}
