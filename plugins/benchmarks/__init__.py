"""Benchmarks: run them through lm-evaluation-harness, judge them by their scores over training."""

from __future__ import annotations

from typing import Any

from warehouse.plugins import hookimpl


@hookimpl
def tokenmart_commands() -> dict[str, tuple[str, str]]:
    """`eval` and `e2lm`."""
    return {
        "e2lm": (
            f"{__name__}.cli.e2lm:e2lm",
            "Evaluate benchmarks by the signal of their scores early in training.",
        ),
        "eval": (
            f"{__name__}.cli.eval:eval_command",
            "Run benchmarks of lm-evaluation-harness on models, token by token.",
        ),
    }


@hookimpl
def tokenmart_classes(kind: str) -> list[type]:
    """The importer of logged samples, and problem files of kind `table`."""
    if kind == "importers":
        from plugins.benchmarks.harness.imports.samples import HarnessSamples

        return [HarnessSamples]
    if kind == "problem_kinds":
        from plugins.benchmarks.problem_kinds.table import TableKind

        return [TableKind]
    return []


@hookimpl
def tokenmart_tables() -> dict[str, Any]:
    """Scores over training, and answers of models to benchmarks."""
    from plugins.benchmarks.schema import TABLES

    return TABLES
