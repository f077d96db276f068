"""Which pieces a long run has, in which order, and which of them fit a budget.

After every piece all models have read the same documents and were asked in the same contexts, so
that a run may be stopped anywhere and compare like with like.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from warehouse.terminal import counted

Kind = Literal["recall", "documents"]

ONE: dict[Kind, str] = {"recall": "context", "documents": "document"}


@dataclass(frozen=True)
class Piece:
    """Bring every model to the first `upto` documents, or contexts of the target.

    Attributes:
        kind: what it computes.
        upto: how many there are after it.
        left: the share of it that is still to do, 0 to 1.
        seconds: what is left of it is reckoned to take.
    """

    kind: Kind
    upto: int
    left: float
    seconds: float

    @property
    def name(self) -> str:
        """In words."""
        text = counted(self.upto, ONE[self.kind])
        return f"{text} of the target" if self.kind == "recall" else text


@dataclass(frozen=True)
class Rate:
    """What one document, or context, costs for all models together, in seconds.

    Attributes:
        seconds: of one.
        source: where the figure comes from.
    """

    seconds: float
    source: str


def steps(total: int, step: int) -> list[int]:
    """1 × step, 2 × step … total."""
    return sorted({*range(step, total, step), total} - {0})


def ordered(documents: Sequence[int], contexts: Sequence[int]) -> list[tuple[Kind, int]]:
    """Pieces of both kinds in turn, the target first: without one nothing can be compared.

    Args:
        documents: how many there are after each of their pieces.
        contexts: the same of the target.
    """
    found: list[tuple[Kind, int]] = []
    for place in range(max(len(documents), len(contexts))):
        found += [("recall", contexts[place])] if place < len(contexts) else []
        found += [("documents", documents[place])] if place < len(documents) else []
    return found


def fitting(pieces: Sequence[Piece], seconds: float | None) -> int:
    """How many of the first pieces fit together; all without a budget."""
    spent = 0.0
    for place, piece in enumerate(pieces):
        spent += piece.seconds
        if seconds is not None and spent > seconds:
            return place
    return len(pieces)
