"""Gather the data of a table's page, from a problem or a plain file."""

from __future__ import annotations

from pathlib import Path

from plugins.benchmarks.e2lm.score import open_table, table_notes
from plugins.benchmarks.e2lm.scores import open_problem
from plugins.benchmarks.model_sql import ModelSql
from plugins.benchmarks.page.signal_data import SignalData, gather_signal
from plugins.benchmarks.refusal import refused, unknown
from plugins.benchmarks.scores.score_store import read_table
from plugins.benchmarks.scores.table_problem import TableProblem, find_table
from warehouse.paths import Workspace


def gather_page(
    problem: str | None, scores: Path | None, metric: str | None, workspace: Workspace
) -> tuple[SignalData, tuple[str, ...]]:
    """Data of a table's page, and notes.

    Args:
        problem: name or path of a problem of kind `table`; None with `scores`.
        scores: a plain table in the columns of `score.COLUMNS`; None with `problem`.
        metric: the scoring method that the curves show; None for the target's, or the most
            frequent.
        workspace: the checkout with problem files and SQL models.

    Raises:
        TokenmartError: the table is missing or invalid, or has no such scoring method.
    """
    found = _table_problem(problem, workspace) if problem is not None else None
    if found is not None:
        brought = read_table(found, workspace)
        notes, database = brought.notes, open_problem(found.name, brought)
        title, description = found.title, found.description
    else:
        assert scores is not None
        notes, database = None, open_table(scores, metric)
        title, description = scores.stem, ""
    target = found.target if found is not None else None
    with database:
        known = [
            name
            for (name,) in database.execute(
                "select metric from benchmark_scores group by 1 order by count(*) desc, 1"
            ).fetchall()
        ]
        if metric is not None and metric not in known:
            raise unknown("--metric", metric, known)
        chosen = metric or (target.metric if target is not None else known[0])
        models = ModelSql(database, workspace)
        models.build("benchmark_signal")
        data = gather_signal(
            database, title, description, chosen, target.benchmarks if target is not None else ()
        )
        return data, table_notes(database) if notes is None else notes


def _table_problem(name: str, workspace: Workspace) -> TableProblem:
    found = find_table(name, workspace)
    if found is None or found.predict.metrics:
        what = "is no table of scores" if found is None else "ranks models, not runs over training"
        raise refused("--problem", f"{name} {what}; name a table over training", "other-problem")
    return found
