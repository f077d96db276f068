"""A part of the store: the token files that one of several builds reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warehouse.store.schema import PARTITION_KEYS, TABLES

VARIABLE = "TOKENMART_SHARE"
"""Names the file of the share that a dbt run reads; unset, it reads the whole store."""

DIVIDED = tuple(name for name, (_, keys) in TABLES.items() if keys == PARTITION_KEYS)
"""Tables with a folder for each model and condition. All others are small, and read whole."""

Part = tuple[str, str, str | None]
"""Problem, model_id and condition; None for all conditions."""


@dataclass(frozen=True)
class Share:
    """What a build reads of the tables in `DIVIDED`.

    parts: folders; None for all, as the build that puts shards together reads the ledger.
    """

    parts: tuple[Part, ...] | None

    def folders(self, data: Path, table: str) -> list[Path] | None:
        """Folders of a table that are read, sorted; None when they all are."""
        if self.parts is None or table not in DIVIDED:
            return None
        found: set[Path] = set()
        for problem, model_id, condition in self.parts:
            model = data / table / f"problem={problem}" / f"model_id={model_id}"
            found.update(model.glob(f"condition={condition or '*'}"))
        return sorted(found)

    def checks_bytes_of(self, table: str) -> bool:
        """Whether this build looks for flipped bits in a table: each file has one that does."""
        return (table in DIVIDED) == (self.parts is not None)

    def leaves_to_others(self, data: Path, path: Path) -> bool:
        """Whether a damaged file is for another build, a shard's, to name."""
        return self.parts is None and path.relative_to(data).parts[0] in DIVIDED

    def as_json(self) -> dict[str, Any]:
        """For a file that `read_share` reads."""
        return {"parts": None if self.parts is None else sorted(map(list, self.parts), key=str)}


def read_share(path: str | None) -> Share | None:
    """The share in a file; None without one.

    Raises:
        OSError: it can't be read.
    """
    if not path:
        return None
    parts = json.loads(Path(path).read_bytes())["parts"]
    return Share(None if parts is None else tuple((p, m, c) for p, m, c in parts))
