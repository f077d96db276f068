"""The ledger: one record per unit of work, kept in the footer of the file that contains its rows.

Data and ledger can't disagree, because they become visible in one rename.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import first_line
from warehouse.store.parquet_files import damaged_file
from warehouse.store.schema import SCHEMA_KEY, SCHEMA_VERSION, UNITS_KEY

DIGESTS_KEY = b"tokenmart.unit_digests"
"""Footer key next to the ledger's: one hash per record, in the ledger's order."""

_HASHED_IF_SET = ("weights", "reserved_bytes", "imported")


@dataclass(frozen=True)
class UnitRecord:
    """One finished or failed (model, condition, document): a row of `schema.UNITS`.

    `tokens_processed` counts every token that went through the backbone for this unit,
    `tokens_scored` the rows; `seconds` is wall-clock, `peak_bytes` the process's (or the
    GPU's) peak memory while the unit ran. `document_tokens` of `document_tokens_total`
    tokens were used, `over_limit_tokens` of them beyond the model's context. Work shared
    between conditions is booked on the first that needed it. `weights` begins with `complete`
    where every tensor of the model was in its files; it is empty of units that another program
    computed. `reserved_bytes` is the peak reserved by the GPU's allocator, unused
    parts included; 0 without a GPU. `imported` is JSON with the `format`, the `files` (name and
    sha256) and the columns that they lack (`lacks`) of log-probs that another program wrote; empty
    for a unit that was scored here.
    """

    problem: str
    model_id: str
    condition: str
    condition_kind: str
    probe: str
    probe_params: str
    doc_id: int
    fingerprint: str
    status: Literal["done", "failed"]
    reason: str
    rows: int
    tokens_processed: int
    tokens_scored: int
    seconds: float
    peak_bytes: int
    device: str
    dtype: str
    backend: str
    attention: str
    prefixes: str
    engine: str
    document_sha256: str
    document_tokens: int
    document_tokens_total: int
    torch_version: str
    transformers_version: str
    tokenmart_version: str
    code_revision: str
    code_dirty: bool
    seed: int
    finished_at: str
    content_sha256: str
    over_limit_tokens: int = 0
    reserved_bytes: int = 0
    weights: str = ""
    imported: str = ""


def whole_tokens(unit: UnitRecord, limit: int | None) -> int:
    """Tokens of the unit's document if only this limit cuts it."""
    return min(unit.document_tokens_total, limit or unit.document_tokens_total)


def lacking_columns(unit: UnitRecord) -> list[str]:
    """Columns of tokens that are null in all rows of an imported unit."""
    return list(json.loads(unit.imported)["lacks"]) if unit.imported else []


@dataclass(frozen=True)
class Ledger:
    """A file's unit records, and the ones among them that are not as they were written."""

    units: tuple[UnitRecord, ...]
    altered: tuple[UnitRecord, ...]


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
    """The schema with its version, the unit records and a hash of each as footer metadata.

    What all records of the file have in common is written once: of short documents the ledger
    would otherwise take more than the condition's rows.
    """
    records = [vars(unit) for unit in units]
    common = {
        name: value
        for name, value in (records[0] if records else {}).items()
        if all(record[name] == value for record in records)
    }
    own = [{n: value for n, value in record.items() if n not in common} for record in records]
    payload = _compact({"common": common, "units": own})
    digests = _compact([_digest(unit) for unit in units])
    return schema.with_metadata(
        {
            SCHEMA_KEY: str(SCHEMA_VERSION).encode(),
            UNITS_KEY: payload.encode(),
            DIGESTS_KEY: digests.encode(),
        }
    )


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _parse(payload: bytes) -> tuple[UnitRecord, ...]:
    found = json.loads(payload)
    return tuple(UnitRecord(**{**found["common"], **own}) for own in found["units"])


def _digest(unit: UnitRecord) -> str:
    record = vars(unit)  # flat: `asdict` copies, ten times slower
    record = {n: value for n, value in record.items() if value or n not in _HASHED_IF_SET}
    canonical = json.dumps(record, sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def read_ledger(path: Path) -> Ledger:
    """The ledger in a file's footer; records that were altered since they were written apart.

    Raises:
        FileNotFoundError: no such file.
        StorageError: the file is not a readable Parquet file with a ledger of this version.
    """
    try:
        metadata = pq.read_schema(path).metadata or {}
        version = metadata[SCHEMA_KEY].decode()
        if version != str(SCHEMA_VERSION):
            raise ValueError(f"schema version {version}, this program reads {SCHEMA_VERSION}")
        units = _parse(metadata[UNITS_KEY])
        pairs = zip(units, json.loads(metadata[DIGESTS_KEY]), strict=True)
        return Ledger(units, tuple(unit for unit, digest in pairs if _digest(unit) != digest))
    except FileNotFoundError:
        raise
    except KeyError as error:
        raise damaged_file(path, f"no ledger ({first_line(error)} is missing)") from error
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise damaged_file(path, first_line(error)) from error


def read_units(path: Path) -> list[UnitRecord]:
    """Unit records in a file's footer; an empty list when the file does not exist.

    Raises:
        StorageError: the file is not a readable Parquet file with a ledger, or the ledger was
            altered or is of another problem, model or condition than the file's folders.
    """
    try:
        ledger = read_ledger(path)
    except FileNotFoundError:
        return []
    if ledger.altered:
        raise damaged_file(path, f"{len(ledger.altered)} records of its ledger were altered")
    folders = [part.partition("=")[2] for part in path.parts[-4:-1]]
    for unit in ledger.units:
        if [unit.problem, unit.model_id, unit.condition] != folders:
            named = f"problem={unit.problem}/model_id={unit.model_id}/condition={unit.condition}"
            raise damaged_file(path, f"its ledger is of {named}")
    return list(ledger.units)
