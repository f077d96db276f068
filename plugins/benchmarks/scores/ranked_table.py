"""What the stored table of a problem of kind `table` ranks: runs, recipes or models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plugins.benchmarks.refusal import refused
from plugins.benchmarks.scores.table_problem import TableProblem, TableTarget
from warehouse.paths import Workspace
from warehouse.store.parquet_files import read_table

BUILD = "tokenmart dbt run --select 'fqn:*'"
"""The command that builds scores of tables and their metrics."""


def stored_scores(workspace: Workspace, problem: str) -> Path | None:
    """The scores of a problem in the data folder; None before they are downloaded."""
    for place in (workspace.store / "benchmark_scores", workspace.store / "model_scores"):
        path = place / f"problem={problem}" / "scores.parquet"
        if path.is_file():
            return path
    return None


@dataclass(frozen=True)
class ScoredRun:
    """One ranked entry of a table problem: a run, a recipe (if sizes are compared), or a model."""

    full_id: str
    family: str
    parameters: int | None
    on_request: bool = False

    @property
    def model_id(self) -> str:
        """The partition key: the full id with `/` replaced."""
        return self.full_id.replace("/", "--")


def scored_runs(scores: Path, sizes: Sequence[str] = ()) -> tuple[ScoredRun, ...]:
    """Ranked entries of a stored table, by name.

    Args:
        scores: result of `stored_scores`.
        sizes: rank the recipes that have a run of each of these sizes; if empty, rank runs.
    """
    columns = ["full_id", "family", "parameters", *(["size", "recipe"] if sizes else [])]
    rows = read_table(scores, columns).group_by(columns)
    runs = sorted(rows.aggregate([]).to_pylist(), key=lambda row: str(row["full_id"]))
    if sizes:
        trained = [{row["recipe"] for row in runs if row["size"] == size} for size in sizes]
        recipes = set.intersection(*trained) - {None}
        return tuple(ScoredRun(recipe, recipe, None) for recipe in sorted(recipes))
    return tuple(ScoredRun(row["full_id"], row["family"], row["parameters"]) for row in runs)


@dataclass(frozen=True)
class RankedTable:
    """A table problem with what its stored table ranks."""

    name: str
    argument: str
    title: str
    description: str
    target: TableTarget | None
    baseline: str
    ranked_models: tuple[ScoredRun, ...]

    @property
    def marts(self) -> tuple[str, ...]:
        """dbt models that its metrics are read from; `dbt run` alone leaves out the first two."""
        return ("early_scores", "model_score_values", "metric_values")

    @property
    def build(self) -> str:
        """The command that builds them."""
        return BUILD


def ranked_table(problem: TableProblem, workspace: Workspace) -> RankedTable:
    """A problem with the runs that its stored table ranks.

    Raises:
        TokenmartError: its table has not been fetched.
    """
    scores = stored_scores(workspace, problem.name)
    if scores is None:
        raise refused(
            problem.argument,
            f"its scores are not in the data folder yet; run `{problem.command}` and `{BUILD}`",
            "not-fetched",
        )
    return RankedTable(
        name=problem.name,
        argument=problem.argument,
        title=problem.title,
        description=problem.description,
        target=problem.target,
        baseline=problem.baseline,
        ranked_models=scored_runs(scores, problem.sizes),
    )
