"""Token rows and ledger records as an extraction would write them."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
from unit_records import unit_record

from warehouse.paths import Workspace
from warehouse.store.ledger import UnitRecord, content_sha256
from warehouse.store.schema import TOKENS
from warehouse.store.token_files import publish, write_unit

KEYS = ("sample", "some--model", "full")


def make_text(doc_id: int) -> str:
    """The document behind the rows of this id."""
    return f"document {doc_id} " + "x" * 400_000


def make_rows(doc_id: int, count: int, seed: int = 0) -> pa.Table:
    """Rows of the `full` probe; every position from 0 on."""
    rng = np.random.default_rng([seed, doc_id])
    rank = np.where(rng.random(count) < 0.5, 1, rng.integers(2, 500, count))
    top = -(np.log(2) + rng.exponential(0.8, count)).astype(np.float32)
    below = np.where(rank == 1, 0.0, np.log(rank) + rng.exponential(2.0, count)).astype(np.float32)
    lengths = rng.integers(1, 7, count)
    end = np.cumsum(lengths)
    columns = {
        "doc_id": np.full(count, doc_id),
        "segment": np.zeros(count),
        "position": np.arange(count),
        "context_tokens": np.arange(count),
        "token_id": rng.integers(0, 50_000, count),
        "char_start": end - lengths,
        "char_end": end,
        "logprob": top - below,
        "entropy": rng.exponential(1.5, count) - top,
        "rank": rank,
        "top_logprob": top,
        "varentropy": rng.exponential(1.5, count),
    }
    return pa.table(
        {f.name: pa.array(columns[f.name].astype(f.type.to_pandas_dtype())) for f in TOKENS},
        schema=TOKENS,
    )


def make_unit(doc_id: int, rows: pa.Table) -> UnitRecord:
    """The record of these rows."""
    return unit_record(
        KEYS,
        rows.num_rows,
        rows.num_rows,
        doc_id=doc_id,
        fingerprint=f"{doc_id:016x}",
        document_sha256=hashlib.sha256(make_text(doc_id).encode()).hexdigest(),
        content_sha256=content_sha256(rows),
    )


def publish_often(workspace: Workspace, first: int) -> None:
    """Write and publish five units, one after the other."""
    for doc_id in range(first, first + 5):
        rows = make_rows(doc_id, 50)
        write_unit(workspace, make_unit(doc_id, rows), rows)
        publish(workspace, *KEYS)
