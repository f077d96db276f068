{{ config(materialized = 'table') }}

with footers as (
    select * from {{ source('extract', 'units') }}
),

ledgers as (
    select decode(footers.value)::json as ledger
    from footers
    where decode(footers.key) = 'tokenmart.units'
),

-- what all units of a file have in common stands there once; older files repeat it in a list
merged as (
    select
        json_merge_patch(
            coalesce(ledgers.ledger -> '$.common', '{}'::json),
            unnest(coalesce(ledgers.ledger -> '$.units', ledgers.ledger)::json[])
        ) as record
    from ledgers
),

records as (
    select
        unnest(
            from_json(
                merged.record,
                '{
                    "problem": "varchar",
                    "model_id": "varchar",
                    "condition": "varchar",
                    "condition_kind": "varchar",
                    "probe": "varchar",
                    "probe_params": "varchar",
                    "doc_id": "integer",
                    "fingerprint": "varchar",
                    "status": "varchar",
                    "reason": "varchar",
                    "rows": "bigint",
                    "tokens_processed": "bigint",
                    "tokens_scored": "bigint",
                    "seconds": "double",
                    "peak_bytes": "bigint",
                    "device": "varchar",
                    "dtype": "varchar",
                    "attention": "varchar",
                    "document_sha256": "varchar",
                    "document_tokens": "integer",
                    "document_tokens_total": "integer",
                    "torch_version": "varchar",
                    "transformers_version": "varchar",
                    "tokenmart_version": "varchar",
                    "code_revision": "varchar",
                    "code_dirty": "boolean",
                    "seed": "bigint",
                    "finished_at": "timestamptz",
                    "content_sha256": "varchar"
                }'
            ),
            recursive := true
        )
    from merged
)

select * from records
