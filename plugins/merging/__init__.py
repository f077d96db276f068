"""Merge experts within rules and limits, evaluate the merges, and rank competition entries."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from warehouse.plugins import hookimpl


@hookimpl
def tokenmart_commands() -> dict[str, tuple[str, str]]:
    """`merge` and `rank`; none without the plugin `benchmarks`, whose code they use."""
    if find_spec("plugins.benchmarks") is None:
        return {}
    return {
        "merge": (
            f"{__name__}.commands.merge:merge",
            "Merge expert models within rules and limits; evaluate and reproduce merges.",
        ),
        "rank": (
            f"{__name__}.commands.rank:rank",
            "Rank entries by geometric means of mean win rates, with intervals.",
        ),
    }


@hookimpl
def tokenmart_classes(kind: str) -> list[type]:
    """Problem files of kind `merge`."""
    if kind == "problem_kinds":
        from plugins.merging.problem import MergeKind

        return [MergeKind]
    return []


@hookimpl
def tokenmart_tables() -> dict[str, Any]:
    """Results of competition entries, and costs of merges."""
    from plugins.merging.tables import TABLES

    return TABLES
