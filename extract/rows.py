"""From scored requests to rows of the token schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from extract.scored import Scored
from extract.tokenization import TokenizedDocument
from warehouse.probes.request import Request
from warehouse.store.schema import TOKENS


def token_rows(
    doc_id: int,
    document: TokenizedDocument,
    requests: Sequence[Request],
    results: Sequence[Scored],
) -> pa.Table:
    """Rows of one unit in the token schema, sorted by (segment, position)."""
    if not requests:
        return TOKENS.empty_table()
    join: Callable[[list[Any]], Any] = np.concatenate
    positions = join([request.positions for request in requests])
    columns = {
        "doc_id": np.full(len(positions), doc_id, dtype=np.int32),
        "segment": join([np.full(len(r.positions), r.segment, dtype=np.int32) for r in requests]),
        "position": positions,
        "context_tokens": join([request.context_tokens for request in requests]),
        "token_id": join([request.targets for request in requests]),
        "char_start": document.char_start[positions],
        "char_end": document.char_end[positions],
        **{
            name: join([getattr(result.scores, name) for result in results])
            for name in ("logprob", "entropy", "rank", "top_logprob")
        },
    }
    return pa.table({f.name: pa.array(columns[f.name], f.type) for f in TOKENS}, schema=TOKENS)
