"""The side table of top-k tokens: one file per unit, written before the unit itself.

A finished unit for which top-k tokens were requested therefore has them; a file whose unit is gone
or was recomputed is not read: its name contains the unit's fingerprint.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.files import storage_errors
from warehouse.paths import Workspace
from warehouse.remote import footer
from warehouse.store.ledger import UnitRecord, damaged_file
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import TOP_TOKENS
from warehouse.store.token_files import partition

TOP_K_KEY = b"tokenmart.top_k"
"""Parquet footer key: number of top-k tokens per position in the file."""


def top_tokens_path(
    workspace: Workspace, keys: tuple[str, str, str], doc_id: int, fingerprint: str
) -> Path:
    """The file of one unit; `keys` are problem, model id and condition."""
    name = f"doc-{doc_id:06d}-{fingerprint}.parquet"
    return workspace.store / "top_tokens" / partition(*keys) / name


def has_top_tokens(workspace: Workspace, unit: UnitRecord, top_k: int) -> bool:
    """Whether the first `top_k` choices of a unit, or more, are here.

    Raises:
        StorageError: the file is damaged.
    """
    keys = unit.problem, unit.model_id, unit.condition
    path = top_tokens_path(workspace, keys, unit.doc_id, unit.fingerprint)
    try:
        metadata = pq.read_schema(footer(path)).metadata or {}
    except FileNotFoundError:
        return False
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged_file(path, error) from error
    return int(metadata.get(TOP_K_KEY, b"0")) >= top_k


def write_top_tokens(
    workspace: Workspace, unit: UnitRecord, rows: pa.Table | None, top_k: int
) -> None:
    """Store the top-k tokens of a unit, and remove those of an earlier unit of its document.

    Args:
        workspace: where they go.
        unit: the unit, about to be stored.
        rows: in the schema `TOP_TOKENS`; None for none.
        top_k: how many of each token.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    keys = unit.problem, unit.model_id, unit.condition
    path = top_tokens_path(workspace, keys, unit.doc_id, unit.fingerprint)
    if rows is not None:
        schema = TOP_TOKENS.with_metadata({TOP_K_KEY: str(top_k).encode()})
        write_table(path, rows.cast(schema))
    with storage_errors(path):
        for old in path.parent.glob(f"doc-{unit.doc_id:06d}-*.parquet"):
            if rows is None or old != path:
                old.unlink(missing_ok=True)
