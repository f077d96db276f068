"""Progress of the benchmarks of a problem, from their requests and the ledger."""

from __future__ import annotations

from typing import Any

from extract.failures import Failure, summary
from extract.planning.status import StatusSection
from plugins.benchmarks.harness.stored_items import eval_store, requested_units
from warehouse.paths import Workspace
from warehouse.problem.spec import Problem
from warehouse.store.token_files import finished_units, published_path
from warehouse.terminal import Column


def benchmark_rows(problem: Problem, workspace: Workspace) -> list[dict[str, Any]]:
    """One row per started pair of model and task: units done, failed and planned, and their cost.

    `outdated` is the number of units that were scored before the task was edited; they are not used
    until they are run again. `reasons` has the reasons of failed units.
    """
    rows = []
    for folder in sorted(
        (workspace.store / "eval_items").glob(f"problem={problem.name}/condition=*")
    ):
        condition = folder.name.partition("=")[2]
        requests = requested_units(workspace, problem.name, condition) or {}
        for spec in problem.models:
            keys = problem.name, spec.model_id, condition
            units = list(finished_units(eval_store(workspace), *keys).values())
            if not units:
                continue
            own = [u for u in units if requests.get(u.doc_id) == u.document_sha256]
            done = [unit for unit in own if unit.status == "done"]
            file = published_path(eval_store(workspace), *keys)
            rows.append(
                {
                    "model": spec.full_id,
                    "model_id": spec.model_id,
                    "condition": condition,
                    "done": len(done),
                    "failed": len(own) - len(done),
                    "outdated": len(units) - len(own),
                    "units": len(requests),
                    "reasons": sorted({unit.reason for unit in own if unit.reason}),
                    "rows": sum(unit.rows for unit in done),
                    "tokens_processed": sum(unit.tokens_processed for unit in done),
                    "seconds": sum(unit.seconds for unit in done),
                    "bytes": file.stat().st_size if file.is_file() else 0,
                }
            )
    return rows


def benchmark_columns(rows: list[dict[str, Any]]) -> list[Column]:
    """The rows for the terminal."""
    return [
        Column("model", [row["model"] for row in rows], text=True),
        Column("task", [row["condition"] for row in rows], text=True),
        Column("units done", [f"{row['done']}/{row['units']}" for row in rows]),
        Column("failed", [str(row["failed"] or "") for row in rows]),
        Column("outdated", [str(row["outdated"] or "") for row in rows]),
        Column("rows", [f"{row['rows']:,}" for row in rows], extra=True),
        Column("tokens", [f"{row['tokens_processed']:,}" for row in rows], extra=True),
        Column("seconds", [f"{row['seconds']:,.0f}" for row in rows], extra=True),
    ]


def benchmark_notes(rows: list[dict[str, Any]]) -> list[str]:
    """Reasons why units failed, and the command for the missing ones."""
    failures = [Failure(row["model"], reason) for row in rows for reason in row["reasons"]]
    notes = [f"failed: {line}" for line in summary(failures)]
    missing = sum(row["done"] < row["units"] for row in rows)
    if missing:
        notes.append(
            f"{missing} of {len(rows)} benchmark runs incomplete; run the same `tokenmart eval`"
            " command again to compute the rest"
        )
    return notes


class Benchmarks(StatusSection):
    """Started benchmark runs."""

    kind = "benchmarks"

    def read(self) -> list[dict[str, Any]]:
        """One row per (model, task): see `benchmark_rows`."""
        return benchmark_rows(self.problem, self.workspace)

    def columns(self) -> list[Column]:
        """The rows for the terminal."""
        return benchmark_columns(self.rows)

    def notes(self) -> list[str]:
        """Reasons why units failed, and the command for the missing ones."""
        return benchmark_notes(self.rows)
