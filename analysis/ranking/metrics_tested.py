"""Metrics tested for a problem that the present build lacks: multiple comparisons count them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warehouse.metrics.tries import Try, remember, tries

if TYPE_CHECKING:
    from warehouse.paths import Workspace


def tested_besides(workspace: Workspace, problem: str, present: Sequence[Try]) -> list[Try]:
    """Record what is present, and return what was tested for the problem and is not.

    An idea that was asked under two names is one.

    Raises:
        StorageError: the record can't be read or written; nothing would count it then.
    """
    remember(workspace, problem, present)
    here = {_identity(entry) for entry in present}
    besides: dict[tuple[str, str, str, str], Try] = {}
    for entry in tries(workspace, problem):
        if _identity(entry) not in here:
            besides.setdefault(_identity(entry), entry)
    return list(besides.values())


def _identity(entry: Try) -> tuple[str, str, str, str]:
    metric = entry.metric if entry.kind == "variant" else ""
    return entry.kind, metric, entry.variant, entry.definition
