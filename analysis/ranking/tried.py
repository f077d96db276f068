"""Everything ever tried for a problem beside the present build: it counts, whatever is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warehouse.metrics.tries import Try, remember, tries

if TYPE_CHECKING:
    from warehouse.paths import Workspace


def tried_besides(workspace: Workspace, problem: str, present: Sequence[Try]) -> list[Try]:
    """Write down what is present, and return what was tried for the problem and isn't.

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
