"""The ledger: one record per unit of work, kept in the footer of the file that holds its rows.

Data and ledger can't disagree, because they become visible in one rename.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import StorageError
from warehouse.schema import SCHEMA_VERSION, UNITS_KEY


@dataclass(frozen=True)
class UnitRecord:
    """One finished or failed (model, probe, document).

    `tokens_processed` counts every token that went through the backbone for this unit,
    `tokens_scored` the rows; `seconds` is wall-clock, `peak_bytes` the process's (or the
    GPU's) peak memory while the unit ran. `document_tokens` of `document_tokens_total`
    tokens were used. Work shared between probes is booked on the first that needed it.
    """

    problem: str
    model_id: str
    probe: str
    probe_kind: str
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
    attention: str
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


UNIT_FIELDS = tuple(field.name for field in fields(UnitRecord))


def fingerprint(parts: Mapping[str, Any]) -> str:
    """Hash of everything a unit's rows depend on; equal fingerprints are never recomputed.

    Args:
        parts: JSON-able values: weights revision, interventions, tokenizer, document sha256,
            probe kind and parameters, dtype, BOS policy, truncation.

    Returns:
        The first 16 hex digits of a sha256.
    """
    canonical = json.dumps({**parts, "schema": SCHEMA_VERSION}, sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def content_sha256(table: pa.Table) -> str:
    """sha256 over the stored values, column by column; independent of encoding and row groups."""
    digest = hashlib.sha256()
    for column in table.columns:
        digest.update(column.to_numpy(zero_copy_only=False).tobytes())
    return digest.hexdigest()


def with_units(schema: pa.Schema, units: list[UnitRecord]) -> pa.Schema:
    """The schema with the unit records as footer metadata."""
    payload = json.dumps([asdict(unit) for unit in units], ensure_ascii=False)
    return schema.with_metadata({UNITS_KEY: payload.encode()})


def read_units(path: Path) -> list[UnitRecord]:
    """Unit records in a file's footer; an empty list when the file does not exist.

    Raises:
        StorageError: the file is not a readable Parquet file with a ledger.
    """
    try:
        metadata = pq.read_schema(path).metadata or {}
        return [UnitRecord(**record) for record in json.loads(metadata.get(UNITS_KEY, b"[]"))]
    except FileNotFoundError:
        return []
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise StorageError(
            f"{path}: damaged or not a Tokenmart file ({str(error).splitlines()[0][:120]}); "
            "move it away and run the same command again: only its units are recomputed"
        ) from error
