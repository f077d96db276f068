"""Documents of a run, each with the other document that control conditions read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from warehouse.errors import TokenmartError
from warehouse.probes.request import Condition
from warehouse.problem.unit_states import Text


@dataclass(frozen=True)
class PlannedDocument:
    """One proxy document; `foreign` is the document that control conditions put in its place."""

    doc_id: int
    name: str
    sha256: str
    text: str
    foreign: PlannedDocument | None = None


def documents_of(
    table: pa.Table, limit: int | None, conditions: Sequence[Condition] = ()
) -> list[PlannedDocument]:
    """The first `limit` documents of the table `documents`, for these conditions.

    Raises:
        TokenmartError: a document is empty, or a condition needs another one and there is none.
    """
    needy = [condition.name for condition in conditions if condition.kind.reads_foreign]
    if needy and table.num_rows < 2:
        raise TokenmartError(
            f"condition {needy[0]} reads another document, and the corpus has only one; add "
            "documents, or take the control out of the problem file"
        )
    rows = table.to_pylist()
    for row in rows[:limit]:
        if not row["text"].strip():
            raise TokenmartError(
                f"document {row['doc_id']} ({row['name']}) is empty; remove it from the corpus"
            )
    documents = [
        PlannedDocument(row["doc_id"], row["name"], row["sha256"], row["text"]) for row in rows
    ]
    by_sha256 = {document.sha256: document for document in documents}
    return [
        replace(document, foreign=by_sha256.get(row["foreign_sha256"]))
        for document, row in zip(documents[:limit], rows, strict=False)
    ]


def texts_of(documents: Sequence[PlannedDocument]) -> dict[int, Text]:
    """The identities of documents' texts by number."""
    return {
        document.doc_id: Text(
            document.sha256, document.foreign.sha256 if document.foreign else None
        )
        for document in documents
    }
