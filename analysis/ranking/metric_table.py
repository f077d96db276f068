"""The metric tables of one problem, pulled from the marts into typed columns."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from analysis.preregistration.preregistered import PreregisteredMetric, preregistered_metrics
from analysis.ranking.target import load_target
from analysis.statistics.correlations import Flags, Floats, settled
from warehouse.errors import TokenmartError, did_you_mean
from warehouse.metrics.tries import built_tries, tested_besides
from warehouse.problem.series import series_of

if TYPE_CHECKING:
    from analysis.ranking.other_labs import OtherLab
    from warehouse.metrics.tries import Kind, Try
    from warehouse.paths import Workspace
    from warehouse.problem.kinds import Ranked

Direction = Literal["higher", "lower"]


@dataclass(frozen=True)
class Model:
    """A model of the problem. `parameters` is None if it is not stated.

    kind: the dose series or training run it is one point of; alone, its own id.
    """

    model_id: str
    full_id: str
    family: str
    parameters: int | None
    kind: str = ""


@dataclass(frozen=True, eq=False)
class MetricColumn:
    """One variant of one metric over the models of a problem, or an idea.

    values: `[models]` as computed, NaN where missing.
    direction: which way is better, according to the catalogue.
    kind: `variant` of a family, or an idea: `sql` or `values`; its formula is the SQL or the hash.
    documents, tokens: `[models]` that each value rests on; empty for what isn't of this build.
    """

    metric: str
    variant: str
    family: str
    parameters: dict[str, Any]
    direction: Direction
    admissible: bool
    formula: str
    description: str
    values: Floats = field(repr=False)
    kind: Kind = "variant"
    documents: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """`metric/variant`."""
        return f"{self.metric}/{self.variant}"

    @property
    def oriented(self) -> Floats:
        """The values with the sign that makes higher better, without the rounding of sums."""
        return settled(-self.values if self.direction == "lower" else self.values)

    @property
    def present(self) -> Flags:
        """`[models]`, where a finite value exists."""
        return np.isfinite(self.values)


@dataclass(frozen=True)
class MetricTable:
    """All metric columns of a problem, with its target.

    models: those with a target score, in the problem's order.
    target: `[models]`.
    columns: of the present build, and ideas that are being asked about.
    tried: other metrics ever tested for the problem; every adjustment counts them.
    registered: preregistered metrics.
    baseline: name of the column that the others are compared with; empty for perplexity.
    without_target: full ids of the problem's models that have none (yet).
    extracted: ids of the models of which tokens are here.
    asked: the value of `--problem`, where it isn't the problem's name.
    target_source: where the target came from, for the record.
    dtypes: number formats the models were run in, each with the full ids of its models.
    present: the columns as the record of tested metrics has them.
    """

    problem: str
    models: tuple[Model, ...]
    target: Floats
    columns: tuple[MetricColumn, ...]
    without_target: tuple[str, ...]
    target_source: dict[str, Any]
    dtypes: dict[str, tuple[str, ...]]
    tried: tuple[MetricColumn, ...] = ()
    registered: tuple[PreregisteredMetric, ...] = ()
    baseline: str = ""
    present: tuple[Try, ...] = ()
    extracted: frozenset[str] = frozenset()
    asked: str = ""

    @property
    def option(self) -> str:
        """The value of `--problem` that selects this problem, for commands in messages."""
        return self.asked or self.problem

    @property
    def everything(self) -> tuple[MetricColumn, ...]:
        """All metrics ever tested: every adjusted p counts them."""
        return (*self.columns, *self.tried)

    @property
    def tries(self) -> dict[str, int]:
        """Numbers of metrics tested: variants of this build, of earlier ones, and ideas."""
        ideas = sum(column.kind != "variant" for column in self.everything)
        built = sum(column.kind == "variant" for column in self.columns)
        return {
            "all": len(self.everything),
            "variants_of_this_build": built,
            "variants_of_earlier_builds": len(self.everything) - built - ideas,
            "ideas": ideas,
        }

    @property
    def tries_text(self) -> str:
        """The number of metrics tested, in words."""
        count = self.tries
        parts = [
            f"{count[name]} {words if count[name] == 1 else words.replace(word, word + 's')}"
            for name, word, words in (
                ("variants_of_this_build", "variant", "variant of this build"),
                ("variants_of_earlier_builds", "variant", "variant of earlier builds"),
                ("ideas", "idea", "idea"),
            )
            if count[name]
        ]
        return f"{count['all']} metrics tested ({', '.join(parts)})"

    def named(self, metrics: Sequence[str]) -> tuple[MetricColumn, ...]:
        """The columns of these METRICs or METRIC/VARIANTs, to be shown; all when none is named.

        Raises:
            TokenmartError: no such metric or variant.
        """
        known = {column.metric for column in self.columns}
        names = {column.name for column in self.columns}
        for given in metrics:
            metric = given.partition("/")[0]
            if metric not in known:
                raise TokenmartError(
                    f"--metric {given}: no such metric for {self.problem}; "
                    f"{did_you_mean(metric, known)}there are {', '.join(sorted(known))}"
                )
            if "/" in given and given not in names:
                own = sorted(c.variant for c in self.columns if c.metric == metric)
                raise TokenmartError(
                    f"--metric {given}: no such variant for {self.problem}; "
                    f"{did_you_mean(given, names)}{metric} has {', '.join(own)}"
                )
        return tuple(
            c for c in self.columns if not metrics or c.metric in metrics or c.name in metrics
        )

    @property
    def families(self) -> tuple[str, ...]:
        """The family of each model."""
        return tuple(model.family for model in self.models)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The dose series or training run of each model; a model alone is its own."""
        return tuple(model.kind or model.full_id for model in self.models)

    @property
    def series(self) -> tuple[str, ...]:
        """Family and kind of each model: what a bootstrap over models draws as wholes."""
        return tuple(f"{f}/{k}" for f, k in zip(self.families, self.kinds, strict=True))

    @property
    def target_errors(self) -> Floats:
        """`[models]` standard error of the target, NaN where unknown."""
        known = self.target_source.get("stderr") or {}
        found = [known.get(model.model_id) for model in self.models]
        return np.array([math.nan if error is None else float(error) for error in found])

    @property
    def log_parameters(self) -> Floats:
        """`[models]` natural log of the parameter count, NaN where unknown."""
        return np.array(
            [math.log(model.parameters) if model.parameters else math.nan for model in self.models]
        )

    def column(self, name: str) -> MetricColumn:
        """The column of a METRIC/VARIANT, or of a METRIC that has one variant.

        Raises:
            TokenmartError: no such metric or variant, or several variants and none named.
        """
        found = self.named([name])
        if len(found) != 1:
            raise TokenmartError(
                f"--metric {name}: has several variants; choose from "
                f"{', '.join(column.name for column in found)}"
            )
        return found[0]


def load_table(
    problem: Ranked,
    workspace: Workspace,
    ideas: Sequence[Try] = (),
    better: Direction = "higher",
    others: Sequence[OtherLab] = (),
) -> MetricTable:
    """Read the marts and the target of a problem.

    Args:
        problem: whose models and target count.
        workspace: where the DuckDB file and the locked files are.
        ideas: to rank together with the variants of the build.
        better: which values of the ideas are better.
        others: labs whose models are ranked, too.

    Raises:
        TokenmartError: no mart, no value, or no target.
        LockedFileError: the target file is missing or changed.
        StorageError: the record of what was tested can't be read.
    """
    from warehouse.sql.connection import connect_read_only

    with connect_read_only(workspace) as connection:
        values = connection.execute(
            "select metric, variant, model_id, value, documents, tokens from metric_values"
            " where problem = ?",
            [problem.name],
        ).fetchall()
        catalogue = connection.execute(
            "select metric, variant, family, parameters, direction, admissible, formula,"
            " description from metric_catalog"
        ).fetchall()
        built = built_tries(connection, problem.name)
        formats = connection.execute(
            "select distinct dtype, model_id from units where problem = ? and status = 'done'",
            [problem.name],
        ).fetchall()
    scores, source = load_target(problem, workspace)
    models = tuple(
        Model(spec.model_id, spec.full_id, spec.family, spec.parameters, series_of(spec))
        for spec in problem.ranked_models
        if spec.model_id in scores
    )
    models += _models_of_others(problem, workspace, others, scores, source)
    for lab in others:
        values += lab.values
        formats += [(dtype, m.model_id) for m in lab.models for dtype in m.dtypes]
    if len(models) < 3:
        raise TokenmartError(
            f"{problem.name}: {len(models)} models have a target score, 3 are needed; "
            f"run `tokenmart recall --problem {problem.asked}` or place the target file"
        )
    place = {model.model_id: index for index, model in enumerate(models)}
    grouped: dict[tuple[str, str], Floats] = {}
    for metric, variant, model_id, value, documents, tokens in values:
        column = grouped.setdefault((metric, variant), np.full((3, len(models)), np.nan))
        if model_id in place and value is not None:
            column[:, place[model_id]] = value, documents, tokens
    if not grouped and not ideas:
        of_table = problem.target is not None and problem.target.kind == "table"
        bring = "data fetch" if of_table else "extract"
        build = "tokenmart dbt run --select 'fqn:*'" if of_table else "tokenmart dbt build"
        raise TokenmartError(
            f"{problem.name}: the mart metric_values is empty; run "
            f"`tokenmart {bring} --problem {problem.asked}` and `{build}`"
        )
    described = {(row[0], row[1]): row for row in catalogue}
    columns = [_column(described.get(key), key, grouped[key]) for key in sorted(grouped)]
    of_metric = {row[0]: row for row in catalogue}
    for idea in ideas:
        if idea.metric in of_metric:
            raise TokenmartError(f"name {idea.metric!r}: a metric has this name; choose another")
    present = (*built, *ideas)
    besides = tested_besides(workspace, problem.name, present)
    return MetricTable(
        problem=problem.name,
        models=models,
        target=settled(np.array([scores[model.model_id] for model in models])),
        columns=(*(_column_of_try(idea, models, None, better) for idea in ideas), *columns),
        without_target=tuple(m.full_id for m in problem.ranked_models if m.model_id not in scores),
        target_source=source,
        dtypes={
            dtype: tuple(m.full_id for m in models if (dtype, m.model_id) in formats)
            for dtype in sorted({dtype for dtype, _ in formats})
        },
        tried=tuple(
            _column_of_try(entry, models, of_metric.get(entry.metric)) for entry in besides
        ),
        registered=preregistered_metrics(workspace, problem),
        baseline=problem.baseline,
        present=present,
        extracted=frozenset(model_id for _, model_id in formats),
        asked=problem.asked,
    )


def _models_of_others(
    problem: Ranked,
    workspace: Workspace,
    others: Sequence[OtherLab],
    scores: dict[str, float],
    source: dict[str, Any],
) -> tuple[Model, ...]:
    """Other labs' models that have a target; their scores are added to what is known."""
    if not others:
        return ()
    from warehouse.problem.spec import FileTarget

    locked: dict[str, float] = {}
    if isinstance(problem.target, FileTarget):
        from warehouse.problem.target_file import read_locked_target

        models = [spec.full_id for spec in problem.ranked_models]
        path = problem.target.path
        locked = read_locked_target(workspace, problem.name, path, models, some=True).scores
    found = []
    for lab in others:
        for model in lab.models:
            if model.full_id in locked:
                scores[model.model_id] = locked[model.full_id]
            elif model.model_id in lab.scores:
                scores[model.model_id], stderr, items = lab.scores[model.model_id]
                source["stderr"][model.model_id] = stderr
                source["items_per_model"][model.model_id] = items
            else:
                continue
            found.append(
                Model(model.model_id, model.full_id, model.family, model.parameters, model.kind)
            )
    source["others"] = {lab.name: lab.sha256 for lab in others}
    return tuple(found)


def _column(row: Any, key: tuple[str, str], found: Floats) -> MetricColumn:
    """A variant of the build; `found`: its values, and the documents and tokens they rest on."""
    if row is None:
        raise TokenmartError(
            f"metric {key[0]}/{key[1]} has values but no line in metric_catalog; "
            "describe it in its metric file and run `tokenmart dbt build`"
        )
    parameters = json.loads(row[3]) if isinstance(row[3], str) and row[3] else row[3] or {}
    return MetricColumn(
        metric=row[0],
        variant=row[1],
        family=row[2],
        parameters=dict(parameters),
        direction="lower" if row[4] == "lower" else "higher",
        admissible=bool(row[5]),
        formula=row[6] or "",
        description=row[7] or "",
        values=found[0],
        documents=tuple(np.nan_to_num(found[1]).astype(int).tolist()),
        tokens=tuple(np.nan_to_num(found[2]).astype(int).tolist()),
    )


def _column_of_try(
    entry: Try, models: Sequence[Model], row: Any, better: Direction = "higher"
) -> MetricColumn:
    """The column of an idea, or of a variant of an earlier build; `row`: its metric's, if known."""
    variant = entry.kind == "variant"
    return MetricColumn(
        metric=entry.metric,
        variant=entry.variant,
        family=entry.kind,
        parameters={},
        direction="lower" if variant and row and row[4] == "lower" else better,
        admissible=variant and (row is None or bool(row[5])),
        formula=entry.definition,
        description="",
        values=np.array([entry.values.get(model.model_id, math.nan) for model in models]),
        kind=entry.kind,
    )
