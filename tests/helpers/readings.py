"""Documents as a model reads them, of given tokens and without a tokenizer."""

from __future__ import annotations

from typing import Any

import numpy as np

from warehouse.probes.planned import planned_document
from warehouse.probes.request import DocumentTokens


def reading_of(ids: Any, bos: int | None, foreign: Any = None) -> DocumentTokens:
    """These tokens as the words of a made-up text, four characters each, in sentences of 25."""
    plan = planned_document(len(ids))
    other = None if foreign is None else reading_of(foreign, bos)
    return DocumentTokens(
        np.asarray(ids, np.int32), plan.char_start, plan.char_end, plan.text, bos, other
    )
