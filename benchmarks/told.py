"""What a committed output says, told in a page between two marks that name it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warehouse.store.provenance import processor_name, versions

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "RESULTS.md"


def block(name: str, lines: Sequence[str]) -> str:
    """Lines between the marks of a name."""
    return "\n".join([f"<!-- {name} -->", *lines, f"<!-- end of {name} -->"])


def tell(page: Path, name: str, new: str) -> None:
    """Put a block in the place of the one that a page has under its name.

    Raises:
        ValueError: the page has none.
    """
    text = page.read_text("utf-8")
    last = f"<!-- end of {name} -->"
    begin, end = text.index(f"<!-- {name} -->"), text.index(last) + len(last)
    page.write_text(text[:begin] + new + text[end:], encoding="utf-8")


def machine(*packages: str) -> dict[str, Any]:
    """Processor, cores, and versions of Python and packages."""
    return {"processor": processor_name(), "cores": os.cpu_count(), **versions(packages)}
