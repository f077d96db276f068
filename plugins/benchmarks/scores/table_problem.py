"""Problems of kind `table`: scores of runs over training, or of models; nothing to extract.

Early scores become metrics, and the final score is the target. If models are ranked, scores of some
metrics predict the score of another metric.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr, model_validator

from warehouse.file_model import FileModel
from warehouse.paths import Workspace
from warehouse.problem.problem_files import paths_start, read_problem_file
from warehouse.problem.yaml_file import YamlTree, check


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
    def names(self) -> tuple[str, ...]:
        """Shares, sizes or metrics, as text."""
        return (*map(str, self.shares), *self.sizes, *self.metrics)

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


class TableTarget(FileModel):
    """The final score: mean over `benchmarks` of `metric`, at the end of training if over it.

    `size` belongs to `predict: sizes`: the final score is that of runs of this size.
    """

    kind: Literal["table"] = "table"
    metric: str
    benchmarks: tuple[str, ...] = ()
    size: str | None = None


class TableProblem(FileModel):
    """A table of scores, its early scores as metrics and its final scores as target."""

    kind: Literal["table"]
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    title: str
    description: str = ""
    table: ScoreFile
    early: Early = Early()
    predict: Predict
    target: TableTarget | None = None
    baseline: str = ""
    _argument: str = PrivateAttr(default="")

    @property
    def argument(self) -> str:
        """The given value of `--problem`, quoted for a shell, for commands in messages."""
        return shlex.quote(self._argument or self.name)

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
    def sizes(self) -> tuple[str, ...]:
        """The sizes at which a recipe must have been trained to be ranked; empty for runs."""
        last = (self.target.size,) if self.target and self.target.size else ()
        return (*self.predict.sizes, *last)

    @property
    def command(self) -> str:
        """The command that fetches its scores."""
        return f"tokenmart data fetch --problem {self.argument}"


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
