"""`extract --hours`: all models score the same first documents, as many as fit the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from extract.planning.plan import Document


def next_documents(done: int, total: int, seconds_left: float, seconds_each: float) -> int:
    """Number of documents of the next batch; 0 if none is left or none fits.

    A piece is at most as large as everything before it, so that a first document that was fast
    by accident doesn't start hours of work, and models are loaded few times.

    Args:
        done: documents that all models have scored.
        total: documents asked for.
        seconds_left: of the budget.
        seconds_each: what one document took for all models, at most; 0 before the first.
    """
    count = min(total - done, max(1, done))
    return min(count, int(seconds_left / seconds_each)) if seconds_each else count


def extract_within(
    hours: float,
    documents: Sequence[Document],
    units_each: int,
    score: Callable[[Sequence[Document]], int],
) -> int:
    """Score documents in order, piece by piece, until the next piece would not end in time.

    The first document is always scored: nothing is measured before it.

    Args:
        hours: the budget, of the clock.
        documents: in the order in which they are scored.
        units_each: units of one document: models × conditions.
        score: scores some documents with all models; returns how many units it computed.

    Returns:
        How many documents were taken.
    """
    started = time.monotonic()
    done, slowest = 0, 0.0
    while done < len(documents):
        began = time.monotonic()
        left = 3600 * hours - (began - started)
        count = next_documents(done, len(documents), left, slowest)
        if count < 1:
            break
        units = score(documents[done : done + count])
        done += count
        if units:  # units that were there already say nothing of the time that scoring takes
            slowest = max(slowest, (time.monotonic() - began) * units_each / units)
    return done
