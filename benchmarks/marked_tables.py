"""Tables made from a benchmark's JSON, put into a page between two markers that name them."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from warehouse.store.provenance import versions

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "RESULTS.md"


def table(columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """A Markdown table.

    Args:
        columns: heading → format string of a cell, such as `{seconds:.1f}`; a heading that ends in
            `:` is aligned to the right.
        rows: the values that the formats name.
    """
    heads = [head.rstrip(":") for head in columns]
    rule = "|".join("---:" if head.endswith(":") else "---" for head in columns)
    cells = (" | ".join(cell.format_map(row) for cell in columns.values()) for row in rows)
    return [f"| {' | '.join(heads)} |", f"|{rule}|", *(f"| {line} |" for line in cells)]


def marked(name: str, lines: Sequence[str]) -> str:
    """Lines between the markers of a name."""
    return "\n".join([f"<!-- {name} -->", *lines, f"<!-- end of {name} -->"])


def replace_marked(page: Path, name: str, new: str) -> None:
    """Put a text with its markers in the place of the one that a page has under its name.

    Raises:
        ValueError: the page has none.
    """
    text = page.read_text("utf-8")
    last = f"<!-- end of {name} -->"
    begin, end = text.index(f"<!-- {name} -->"), text.index(last) + len(last)
    page.write_text(text[:begin] + new + text[end:], encoding="utf-8")


def processor_name() -> str:
    """The processor's model name if the system reports it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return next(iter(named), "") or platform.processor() or platform.machine()


def machine(*packages: str) -> dict[str, Any]:
    """Processor, cores, and versions of Python and packages."""
    return {"processor": processor_name(), "cores": os.cpu_count(), **versions(packages)}
