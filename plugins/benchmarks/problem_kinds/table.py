"""Problem files of kind `table`: scores over training, or of models, are fetched and ranked."""

from __future__ import annotations

from pathlib import Path

import click

from plugins.benchmarks.e2lm.outputs import say
from plugins.benchmarks.scores.score_store import read_table, store_scores
from plugins.benchmarks.scores.table_problem import (
    BUILD,
    TableProblem,
    checked_table,
    ranked_table,
)
from warehouse.errors import ProblemFileError
from warehouse.paths import recorded_file
from warehouse.problem.problem_files import ProblemKind, parse_yaml, record_file
from warehouse.terminal import counted


class TableKind(ProblemKind):
    """A plain table of scores of runs over training, or of models."""

    kind = "table"
    keys = TableProblem
    purpose = (
        "a table of scores (kind: table), nothing to extract; use it with `tokenmart data fetch`, "
        f"`{BUILD}`, `tokenmart correlate`, `select` or `report`"
    )

    def ranked(self) -> TableProblem:
        """The problem with the runs that its stored table ranks.

        Raises:
            ProblemFileError: the file is wrong.
            TokenmartError: its table has not been fetched.
        """
        return ranked_table(checked_table(self.name, self.tree, self.workspace), self.workspace)

    def fetch(self) -> None:
        """Read the table into the store.

        Raises:
            TokenmartError: the problem file or the table is wrong.
        """
        problem = checked_table(self.name, self.tree, self.workspace)
        table = problem.table
        brought = read_table(problem, self.workspace)
        store_scores(brought, self.workspace, problem)
        recorded = recorded_file(problem.name, self.workspace)
        if recorded is None or _is_table(recorded):  # a file with documents keeps its name
            record_file(problem, self.workspace)
        scores = brought.scores
        say(brought.notes)
        runs, benchmarks = (len(scores[name].unique()) for name in ("model_id", "benchmark"))
        what = counted(runs, "model" if problem.predict.metrics else "run")
        click.echo(
            f"scores: {scores.num_rows:,} of {what} on {counted(benchmarks, 'benchmark')} "
            f"(licence: {table.licence}); next: {BUILD}"
        )


def _is_table(path: Path) -> bool:
    try:
        return bool(parse_yaml(path).value.get("kind") == TableKind.kind)
    except ProblemFileError:
        return True
