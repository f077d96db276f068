"""Files of an import, its record, and whether several models have scores of the same items."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import TokenmartError
from warehouse.remote import footer, source
from warehouse.text_file import refuse_no_file

IMPORT_KEY = b"tokenmart.import"
"""Parquet footer key: JSON with the format, the metric and the sha256 of the files imported."""


def refuse_missing_or_twice(files: Sequence[Path]) -> None:
    """Stop at a file that isn't there, or that is named twice.

    Raises:
        TokenmartError: one is.
    """
    seen: set[Path] = set()
    for file in files:
        refuse_no_file(file)
        if (found := file.resolve()) in seen:
            raise TokenmartError(f"{file}: was given before; name it once (nothing was imported)")
        seen.add(found)


def other_items(path: Path, mine: dict[str, set[int]]) -> Iterator[str]:
    """Tasks of which another model was scored on other items, a line each."""
    for other in sorted(path.parent.parent.glob("model_id=*/items.parquet")):
        rows = pq.read_table(source(other), columns=["task", "item"], partitioning=None)
        theirs: dict[str, set[int]] = {}
        for row in rows.to_pylist() if other != path else ():
            theirs.setdefault(row["task"], set()).add(row["item"])
        model = other.parent.name.partition("=")[2]
        for task in sorted(mine.keys() & theirs.keys()):
            if mine[task] != theirs[task]:
                yield (
                    f"{task}: {len(mine[task])} items here, {len(theirs[task])} of {model}, "
                    f"{len(mine[task] & theirs[task])} of them the same: the target compares "
                    "scores on different items"
                )
                del mine[task]  # one other model is enough


def import_record(path: Path) -> dict[str, Any] | None:
    """Source of an imported file of items; None if it was measured or can't be read."""
    try:
        metadata = pq.read_schema(footer(path)).metadata or {}
    except (OSError, pa.ArrowException):
        return None
    found: dict[str, Any] | None = json.loads(metadata.get(IMPORT_KEY, b"null"))
    return found
