"""The ledger: one record per unit of work, kept in the footer of the file that contains its rows.

Data and ledger can't disagree, because they become visible in one rename.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import first_line
from warehouse.store.parquet_files import damaged_file
from warehouse.store.schema import SCHEMA_KEY, SCHEMA_VERSION, UNITS_KEY, field


@dataclass(frozen=True)
class UnitRecord:
    """One finished or failed (model, condition, document): a row of the ledger, `UNITS`.

    An annotation has the column's type, where Python's does not give it, and its description. Of
    `document_tokens_total` tokens `document_tokens` were used, `over_limit_tokens` of them beyond
    the model's context. Work shared between conditions is booked on the first that needed it.
    `weights` begins with `complete` where every tensor of the model was in its files.
    """

    problem: Annotated[str, "name of the problem file"]
    model_id: Annotated[str, "the model's full id as one folder name"]
    condition: Annotated[str, "context state the rows were scored in"]
    condition_kind: Annotated[str, "e.g. full, window, retrieval_with_document"]
    probe: Annotated[str, "the probe of the problem file that made the condition"]
    probe_params: Annotated[str, "JSON object: the probe's parameters"]
    doc_id: Annotated[int, pa.int32(), "document in the problem's corpus"]
    fingerprint: Annotated[str, "hash of everything the rows depend on"]
    status: Annotated[Literal["done", "failed"], "done or failed"]
    reason: Annotated[str, "why it failed, else empty"]
    rows: Annotated[int, "rows stored for this unit"]
    tokens_processed: Annotated[int, "tokens that went through the model's layers"]
    tokens_scored: Annotated[int, "tokens that got a log-probability"]
    seconds: Annotated[float, "wall-clock seconds"]
    peak_bytes: Annotated[int, "peak memory of the GPU or the process, in bytes"]
    device: Annotated[str, "cpu or the GPU"]
    dtype: Annotated[str, "number format of the weights"]
    backend: Annotated[str, "program that ran the model, e.g. transformers"]
    attention: Annotated[str, "attention implementation and kernel, e.g. sdpa/flash"]
    prefixes: Annotated[str, "shared, or separate with the reason"]
    engine: Annotated[str, "version of the scoring engine"]
    document_sha256: Annotated[str, "sha256 of the document's UTF-8 text"]
    document_tokens: Annotated[int, pa.int32(), "tokens of the document that were used"]
    document_tokens_total: Annotated[int, pa.int32(), "tokens of the whole document"]
    torch_version: Annotated[str, "version of torch"]
    transformers_version: Annotated[str, "version of transformers"]
    tokenmart_version: Annotated[str, "version of Tokenmart"]
    code_revision: Annotated[str, "commit of the code"]
    code_dirty: Annotated[bool, "whether the code differed from its commit"]
    seed: Annotated[int, "seed of the probe's random choices"]
    finished_at: Annotated[str, pa.timestamp("us", "UTC"), "when the unit was finished"]
    content_sha256: Annotated[str, "hash of the stored rows"]
    over_limit_tokens: Annotated[
        int, pa.int32(), "tokens beyond the model's context that were used"
    ] = 0
    reserved_bytes: Annotated[int, "peak memory that the GPU's allocator held, in bytes"] = 0
    weights: Annotated[str, "complete, and what was renamed; empty: not checked"] = ""
    imported: Annotated[
        str, "JSON: format, files and lacking columns of log-probs of another program, else empty"
    ] = ""
    reference: Annotated[str, "hash of the model it was compared with, else empty"] = ""
    model_sha256: Annotated[str, "hash of the model; empty: not recorded"] = ""
    foreign_sha256: Annotated[
        str, "sha256 of the other document that the condition read, else empty"
    ] = ""


_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def _column(name: str, annotation: Any) -> pa.Field:
    python_type, *given, meaning = get_args(annotation)
    return field(name, given[0] if given else _TYPES.get(python_type, pa.string()), meaning)


UNITS = pa.schema(
    [_column(*each) for each in get_type_hints(UnitRecord, include_extras=True).items()]
)
"""The ledger as a table: `UnitRecord`'s columns."""

DECIDED = pa.schema(
    [
        field("why", pa.string(), "why it failed or is outdated, else empty"),
        field("is_needed", pa.bool_(), "whether the problem file asks for model and condition"),
        field("is_ranked", pa.bool_(), "whether the problem ranks the model"),
    ]
)
"""What the view `units` adds to the ledger: see warehouse/problem/unit_status.sql."""


def whole_tokens(unit: UnitRecord, limit: int | None) -> int:
    """Tokens of the unit's document if only this limit cuts it."""
    return min(unit.document_tokens_total, limit or unit.document_tokens_total)


def lacking_columns(unit: UnitRecord) -> list[str]:
    """Columns of tokens that are null in all rows of an imported unit."""
    return list(json.loads(unit.imported)["lacks"]) if unit.imported else []


def fingerprint(parts: Mapping[str, Any]) -> str:
    """Hash of everything a unit's rows depend on; equal fingerprints are never recomputed.

    Args:
        parts: JSON-able values: weights revision, interventions, tokenizer, document sha256,
            condition kind and parameters, dtype, engine version, class of attention, BOS policy,
            truncation.

    Returns:
        The first 16 hex digits of a sha256.
    """
    canonical = json.dumps({**parts, "schema": SCHEMA_VERSION}, sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def content_sha256(table: pa.Table) -> str:
    """sha256 over the stored values, column by column; independent of encoding and row groups.

    A column of nulls has no part in it: files from before the column have the same hash.
    """
    digest = hashlib.sha256()
    for column in table.columns:
        if column.null_count == len(column):
            continue
        digest.update(column.to_numpy(zero_copy_only=False).tobytes())
    return digest.hexdigest()


def with_units(schema: pa.Schema, units: list[UnitRecord]) -> pa.Schema:
    """The schema with its version and the unit records as footer metadata.

    What all records of the file have in common is written once: of short documents the ledger
    would otherwise take more than the condition's rows.
    """
    records = [vars(unit) for unit in units]
    common = {
        name: value
        for name, value in (records[0] if records else {}).items()
        if all(record[name] == value for record in records)
    }
    differing = [{n: value for n, value in record.items() if n not in common} for record in records]
    payload = json.dumps(
        {"common": common, "units": differing}, ensure_ascii=False, separators=(",", ":")
    )
    return schema.with_metadata({SCHEMA_KEY: str(SCHEMA_VERSION), UNITS_KEY: payload})


def read_units(path: Path) -> list[UnitRecord]:
    """Unit records in a file's footer; an empty list when the file does not exist.

    Raises:
        StorageError: the file is not a readable Parquet file with a ledger of this version.
    """
    try:
        metadata = pq.read_schema(path).metadata or {}
        version = metadata[SCHEMA_KEY].decode()
        if version != str(SCHEMA_VERSION):
            raise ValueError(f"schema version {version}, this program reads {SCHEMA_VERSION}")
        ledger = json.loads(metadata[UNITS_KEY])
        units = [UnitRecord(**{**ledger["common"], **own}) for own in ledger["units"]]
    except FileNotFoundError:
        return []
    except KeyError as error:
        raise damaged_file(path, f"no ledger ({first_line(error)} is missing)") from error
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise damaged_file(path, first_line(error)) from error
    return units
