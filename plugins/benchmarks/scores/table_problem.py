"""Problems of kind `table`: scores of runs over training, or of models; nothing to extract.

Early scores become metrics, and the final score is the target. If models are ranked, scores of some
metrics predict the score of another metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, PrivateAttr, model_validator

from plugins.benchmarks.refusal import refused
from warehouse.file_model import FileModel
from warehouse.paths import Workspace
from warehouse.problem.problem_files import (
    AnyTarget,
    Ranked,
    YamlTree,
    check,
    paths_start,
    read_problem_file,
)
from warehouse.store.parquet_files import read_table

BUILD = "tokenmart dbt run --select 'fqn:*'"
"""The command that builds scores of tables and their metrics."""


class ScoreFile(FileModel):
    """A plain table of scores."""

    path: Path
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    source: str | None = None
    licence: str = "unknown"


class Early(FileModel):
    """Early checkpoints of a run; they satisfy every given condition.

    `checkpoints` is their number, evenly spaced up to `until_share`.
    """

    until_tokens: float | None = Field(default=None, gt=0)
    until_share: float | None = Field(default=None, gt=0, le=1)
    every_steps: int | None = Field(default=None, gt=0)
    checkpoints: int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _spacing_needs_an_end(self) -> Early:
        if self.checkpoints is not None and self.until_share is None:
            raise ValueError("checkpoints needs until_share, the end of the window; add it")
        return self


class Predict(FileModel):
    """Metrics: scores at these shares of a run's training, or at these sizes.

    For models instead of runs, `metrics` names the predicting scores. With `each_document`, each
    document of a score is a metric of its own, in addition to the mean over documents.
    """

    shares: tuple[float, ...] = ()
    sizes: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    each_document: bool = False

    @property
    def names(self) -> tuple[float | str, ...]:
        """Shares, sizes or metrics."""
        return (*self.shares, *self.sizes, *self.metrics)

    @model_validator(mode="after")
    def _one_of_them(self) -> Predict:
        if [bool(self.shares), bool(self.sizes), bool(self.metrics)].count(True) != 1:
            raise ValueError("give one of: shares (of training), sizes, metrics (of models)")
        if self.each_document and not self.metrics:
            raise ValueError("each_document belongs to metrics (of models); remove it")
        for share in self.shares:
            if not 0 < share < 1:
                raise ValueError(f"share {share} is not between 0 and 1")
        return self


class TableTarget(AnyTarget):
    """The final score: mean over `benchmarks` of `metric`, at the end of training if over it.

    `size` belongs to `predict: sizes`: the final score is that of runs of this size.
    """

    kind: Literal["table"] = "table"
    metric: str
    benchmarks: tuple[str, ...] = ()
    size: str | None = None


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


class TableProblem(Ranked):
    """A table of scores, its early scores as metrics and its final scores as target."""

    kind: Literal["table"]
    table: ScoreFile = Field(description="table of scores")
    early: Early = Field(default=Early(), description="early checkpoints of a run")
    predict: Predict = Field(description="scores that predict the target")
    target: TableTarget | None = Field(default=None, description="score to rank the runs by")

    marts: ClassVar[tuple[str, ...]] = ("early_scores", "model_score_values", "metric_values")
    """`dbt run` alone leaves out the first two."""
    build: ClassVar[str] = BUILD
    _ranked: tuple[ScoredRun, ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _sizes_go_together(self) -> TableProblem:
        if self.target and (self.target.size is None) != (not self.predict.sizes):
            raise ValueError("target.size and predict.sizes go together")
        if self.target and self.target.size in self.predict.sizes:
            raise ValueError(f"size {self.target.size!r} can't predict itself")
        return self

    @model_validator(mode="after")
    def _models_have_no_early_scores(self) -> TableProblem:
        if self.predict.metrics and self.early != Early():
            raise ValueError("early belongs to runs over training; remove it, or predict.metrics")
        return self

    @property
    def ranked_models(self) -> Sequence[ScoredRun]:
        """What `ranked_table` found in its stored table."""
        return self._ranked


def checked_table(name: str, tree: YamlTree, workspace: Workspace) -> TableProblem:
    """The problem that a parsed file describes.

    Args:
        name: the value of `--problem`.
        tree: the file.
        workspace: the checkout.

    Raises:
        ProblemFileError: wrong; every mistake with file, line, key and value.
    """
    problem = check(TableProblem, tree.value, tree, folder=paths_start(tree.path, workspace))
    problem._argument = name
    return problem


def find_table(name: str, workspace: Workspace) -> TableProblem | None:
    """The problem of this name or path if it is of kind `table`.

    Raises:
        ProblemFileError: unreadable or wrong.
    """
    tree = read_problem_file(name, workspace)
    if tree.value.get("kind") != "table":
        return None
    return checked_table(name, tree, workspace)


def stored_scores(workspace: Workspace, problem: str) -> Path | None:
    """The scores of a problem in the data folder; None before they are downloaded."""
    for place in (workspace.store / "benchmark_scores", workspace.store / "model_scores"):
        path = place / f"problem={problem}" / "scores.parquet"
        if path.is_file():
            return path
    return None


def ranked_table(problem: TableProblem, workspace: Workspace) -> TableProblem:
    """The problem with what its stored table ranks, by name: runs, models, or recipes.

    Recipes are ranked if sizes are compared: those that have a run of each size.

    Raises:
        TokenmartError: its table has not been fetched.
    """
    scores = stored_scores(workspace, problem.name)
    if scores is None:
        fetch = f"tokenmart data fetch --problem {problem.argument}"
        what = f"its scores are not in the data folder yet; run `{fetch}` and `{BUILD}`"
        raise refused(problem.argument, what, "not-fetched")
    size = problem.target.size if problem.target else None
    sizes = (*problem.predict.sizes, *([size] if size else []))
    columns = ["full_id", "family", "parameters", *(["size", "recipe"] if sizes else [])]
    rows = read_table(scores, columns).group_by(columns).aggregate([]).to_pylist()
    if sizes:
        trained = [{row["recipe"] for row in rows if row["size"] == each} for each in sizes]
        recipes = sorted(set.intersection(*trained) - {None})
        problem._ranked = tuple(ScoredRun(recipe, recipe, None) for recipe in recipes)
    else:
        runs = sorted(rows, key=lambda row: str(row["full_id"]))
        problem._ranked = tuple(
            ScoredRun(row["full_id"], row["family"], row["parameters"]) for row in runs
        )
    return problem
