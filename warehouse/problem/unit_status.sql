-- The rule that decides whether a unit is current: one row per unit of the ledger, and one per unit
-- that a problem needs and the ledger does not have. A plan, an extraction, `status`, `data gc`,
-- `submit`, `tokenmart sql` and dbt read it. What only a run decides (dtype, attention, tokens read)
-- is in a unit's fingerprint, which a plan compares (`extract/planning/fingerprints.py`).
--
-- It reads three relations: `ledger` (records of units), `needed` (what the problem file asks for)
-- and `documents`. A problem that `needed` does not have is one whose file is not here: only its
-- texts are compared. A value that is not known (null, or empty in the ledger) is not compared.

with problem_files as (
    select distinct problem from main.needed
),

needed_models as (
    select distinct
        problem,
        model_id
    from main.needed
),

corpora as (
    select distinct problem from main.documents
),

compared as (
    select
        ledger.*,
        problem_files.problem is null or needed.condition is not null as is_needed,
        coalesce(needed.is_ranked, problem_files.problem is null) as is_ranked,
        case
            when problem_files.problem is not null and needed_models.model_id is null
                then 'the model is not in the problem file'
            when problem_files.problem is not null and needed.condition is null
                then 'the probe is not in the problem file'
            when needed.probe_params != ledger.probe_params
                then 'the probe''s parameters have changed'
            when needed.reference_sha256 != ledger.reference
                then 'the reference model has changed'
            when ledger.model_sha256 != '' and needed.model_sha256 != ledger.model_sha256
                then 'the model''s files have changed'
            when corpora.problem is not null and documents.doc_id is null
                then 'the document is not in the corpus'
            when documents.sha256 not in ('', ledger.document_sha256)
                then 'the document has changed'
            when
                needed.reads_foreign
                and ledger.foreign_sha256 != ''
                and documents.foreign_sha256 != ledger.foreign_sha256
                then 'the foreign document has changed'
        end as outdated
    from main.ledger
    left join problem_files using (problem)
    left join needed_models using (problem, model_id)
    left join main.needed using (problem, model_id, condition)
    left join corpora using (problem)
    left join main.documents using (problem, doc_id)
),

stored as (
    select
        * exclude (outdated, is_needed, is_ranked)
        replace (if(outdated is null, status, 'outdated') as status),
        coalesce(outdated, reason) as why,
        is_needed,
        is_ranked
    from compared
),

missing as (
    select
        needed.problem,
        needed.model_id,
        needed.condition,
        documents.doc_id,
        'missing' as status,
        '' as why,
        true as is_needed,
        needed.is_ranked
    from main.needed
    inner join main.documents using (problem)
    anti join main.ledger
        on needed.problem = ledger.problem
        and needed.model_id = ledger.model_id
        and needed.condition = ledger.condition
        and documents.doc_id = ledger.doc_id
)

select * from stored
union all by name
select * from missing
