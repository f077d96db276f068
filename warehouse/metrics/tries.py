"""What was ever tried for a problem: every variant that was built, every idea that was correlated.

A p-value for the best of many must count all of the many, also those that are no longer there.
Each new finding is a file of its own under `<data>/tries/<problem>/`, and none is ever rewritten:
several processes may write, and a crash loses nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

from warehouse.errors import StorageError
from warehouse.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from warehouse.paths import Workspace

Kind = Literal["variant", "sql", "values"]
Direction = Literal["higher", "lower"]


@dataclass(frozen=True)
class Try:
    """One column of numbers, a value per model, that somebody compared with the target.

    kind: a variant of a metric family, an SQL statement, or values of a file.
    definition: what makes it this one: parameters and formula, SQL text, sha256 of the values.
    values: model_id → value; a missing one is NaN or not there.
    first_seen, last_seen: when it was first and last written down, UTC; empty before.
    """

    metric: str
    variant: str
    kind: Kind
    definition: str
    direction: Direction
    values: Mapping[str, float]
    first_seen: str = ""
    last_seen: str = ""

    @property
    def key(self) -> str:
        """sha256 of what makes two tries the same: an idea's name doesn't."""
        name = self.metric if self.kind == "variant" else ""
        return hashlib.sha256(
            json.dumps([self.kind, name, self.variant, self.definition]).encode()
        ).hexdigest()

    @property
    def finite(self) -> dict[str, float]:
        """Model id → value, of the models that have one."""
        return {model: value for model, value in self.values.items() if math.isfinite(value)}


def remember(workspace: Workspace, problem: str, rows: Iterable[Try]) -> None:
    """Write down what is new among the rows, or has other values than before.

    Raises:
        StorageError: it can't be written, or what is there can't be read.
    """
    known = {entry.key: entry for entry in tries(workspace, problem)}
    new = [
        row
        for row in rows
        if row.finite and (row.key not in known or known[row.key].finite != row.finite)
    ]
    if not new:
        return
    now = datetime.now(timezone.utc).isoformat(timespec="microseconds")
    entries = [
        {
            "metric": row.metric,
            "variant": row.variant,
            "kind": row.kind,
            "definition": row.definition,
            "direction": row.direction,
            "values": row.finite,
        }
        for row in new
    ]
    text = json.dumps({"seen": now, "tries": entries}, allow_nan=False)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    write_whole(_folder(workspace, problem) / f"{now.replace(':', '')}-{digest}.json", text)


def tries(workspace: Workspace, problem: str) -> list[Try]:
    """Everything ever tried for a problem, each with the values it had last, oldest first.

    Raises:
        StorageError: a file of the record can't be read.
    """
    found: dict[str, Try] = {}
    for path in sorted(_folder(workspace, problem).glob("*.json")):
        content = _read(path)
        for entry in content["tries"]:
            seen = Try(**entry, first_seen=content["seen"], last_seen=content["seen"])
            before = found.get(seen.key)
            found[seen.key] = replace(seen, first_seen=before.first_seen) if before else seen
    return list(found.values())


def _folder(workspace: Workspace, problem: str) -> Path:
    return workspace.data / "tries" / problem


def _read(path: Path) -> Any:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        entries = [Try(**entry) for entry in content["tries"]]
        if not isinstance(content["seen"], str) or any(not e.values for e in entries):
            raise ValueError("a field is malformed")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"{path}: the record of what was tried is damaged ({error}); restore it: without it, "
            "p-values would count too little"
        ) from error
    return content
