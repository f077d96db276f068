-- Difficulty of documents: bits per character, over all models
-- The spread between models shows which documents separate models.
-- param problem  -- which problem
with per_model as (
    select
        doc_id,
        model_id,
        -sum(logprob::double) / ln(2) / (max(char_end) - min(char_start)) as bits_per_character
    from tokens
    where problem = $problem and condition = 'full'
    group by doc_id, model_id
)

select
    documents.doc_id,
    documents.name as document,
    documents.characters,
    count(*) as models,
    avg(per_model.bits_per_character) as bits_per_character,
    stddev_samp(per_model.bits_per_character) as spread,
    arg_min(per_model.model_id, per_model.bits_per_character) as easiest_for,
    arg_max(per_model.model_id, per_model.bits_per_character) as hardest_for
from per_model
inner join documents
    on per_model.doc_id = documents.doc_id and documents.problem = $problem
group by documents.doc_id, documents.name, documents.characters
order by bits_per_character desc, documents.doc_id
