"""Ledger records as an extraction would write them."""

from __future__ import annotations

from typing import Any

from warehouse.store.ledger import UnitRecord

_DONE = {
    "condition_kind": "full", "probe": "full", "probe_params": "{}", "doc_id": 0,
    "fingerprint": "", "status": "done", "reason": "", "seconds": 1.0, "peak_bytes": 10**9,
    "device": "cpu", "dtype": "float32", "backend": "transformers", "attention": "sdpa/flash",
    "prefixes": "shared", "engine": "2", "document_sha256": "", "torch_version": "0",
    "transformers_version": "0", "tokenmart_version": "0", "code_revision": "0" * 40,
    "code_dirty": False, "seed": 0, "finished_at": "2026-01-01T00:00:00+00:00",
    "content_sha256": "",
}  # fmt: skip


def unit_record(keys: tuple[str, str, str], rows: int, tokens: int, **fields: Any) -> UnitRecord:
    """A finished unit of (problem, model id, condition): a document of so many tokens."""
    counts = {"rows": rows, "tokens_scored": rows} | dict.fromkeys(
        ("tokens_processed", "document_tokens", "document_tokens_total"), tokens
    )
    names = dict(zip(("problem", "model_id", "condition"), keys, strict=True))
    return UnitRecord(**{**_DONE, **names, **counts, **fields})
