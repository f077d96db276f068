"""Metrics tested for a problem that the present build lacks: multiple comparisons count them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warehouse.metrics.tries import Try, is_same, remember, tries

if TYPE_CHECKING:
    from warehouse.paths import Workspace


def record_tested(workspace: Workspace, problem: str, present: Sequence[Try]) -> None:
    """Record metrics and ideas as tested for a problem; each command that tests them does so.

    Raises:
        StorageError: the record can't be written; nothing would count it then.
    """
    remember(workspace, problem, present)


def tested_besides(workspace: Workspace, problem: str, present: Sequence[Try]) -> list[Try]:
    """What was tested for the problem and isn't among those present; nothing is recorded.

    An idea that was asked under two names is one.

    Raises:
        StorageError: the record can't be read.
    """
    here = {_identity(entry) for entry in present}
    named: dict[tuple[str, str, str], list[Try]] = {}
    for entry in present:
        named.setdefault((entry.kind, entry.metric, entry.variant), []).append(entry)
    besides: dict[tuple[str, str, str, str], Try] = {}
    for entry in tries(workspace, problem):
        alike = named.get((entry.kind, entry.metric, entry.variant), ())
        if _identity(entry) not in here and not any(is_same(entry, one) for one in alike):
            besides.setdefault(_identity(entry), entry)
    return list(besides.values())


def _identity(entry: Try) -> tuple[str, str, str, str]:
    metric = entry.metric if entry.kind == "variant" else ""
    return entry.kind, metric, entry.variant, entry.definition
