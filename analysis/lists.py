"""Lists in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from warehouse.terminal import counted


def first_few(names: Sequence[str], most: int, noun: str = "") -> str:
    """The first names of a list, and how many more there are."""
    count = len(names) - most
    more = counted(count, f"more {noun}") if noun else f"{count} more"
    return ", ".join(names[:most]) + (f" and {more}" if count > 0 else "")
