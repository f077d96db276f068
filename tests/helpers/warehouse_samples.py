"""Token rows and ledger records as an extraction would write them."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

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
    top = -rng.exponential(0.8, count).astype(np.float32)
    below = np.where(rank == 1, 0.0, rng.exponential(2.0, count)).astype(np.float32)
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
        "entropy": rng.exponential(1.5, count),
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
    return UnitRecord(
        problem=KEYS[0], model_id=KEYS[1], condition=KEYS[2], condition_kind="full",
        probe="full", probe_params="{}", doc_id=doc_id,
        fingerprint=f"{doc_id:016x}", status="done", reason="", rows=rows.num_rows,
        tokens_processed=rows.num_rows, tokens_scored=rows.num_rows, seconds=1.25,
        peak_bytes=10**8, device="cpu", dtype="float32", backend="transformers",
        attention="sdpa/flash",
        prefixes="shared",
        engine="2",
        document_sha256=hashlib.sha256(make_text(doc_id).encode()).hexdigest(),
        document_tokens=rows.num_rows, document_tokens_total=rows.num_rows,
        torch_version="2", transformers_version="5", tokenmart_version="0.1.0",
        code_revision="unknown", code_dirty=False, seed=0,
        finished_at="2026-01-01T00:00:00+00:00", content_sha256=content_sha256(rows),
    )  # fmt: skip


def publish_often(workspace: Workspace, first: int) -> None:
    """Write and publish five units, one after the other."""
    for doc_id in range(first, first + 5):
        rows = make_rows(doc_id, 50)
        write_unit(workspace, make_unit(doc_id, rows), rows)
        publish(workspace, *KEYS)
