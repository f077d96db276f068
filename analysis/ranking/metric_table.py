"""All metrics of one problem as typed columns over its models, with the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from analysis.statistics.correlations import Flags, Floats, without_rounding
from warehouse.errors import TokenmartError, did_you_mean
from warehouse.metrics.tested_metrics import GroupedModel, KnownTarget, target_sha256
from warehouse.sql.problem_state import UNRECORDED, BuildState

if TYPE_CHECKING:
    from analysis.preregistration.entries import PreregisteredMetric
    from warehouse.metrics.tested_metrics import Kind, MetricRecord

Direction = Literal["higher", "lower"]


@dataclass(frozen=True)
class Model:
    """A model of the problem. `parameters` is None if it is not stated.

    series: the dose series or training run it is one point of; alone, its own id.
    """

    model_id: str
    full_id: str
    family: str
    parameters: int | None
    series: str = ""


def known_target(models: Sequence[Model], target: Floats) -> KnownTarget:
    """What identifies a target in the record of metrics tested: `[models]` scores and labels."""
    full_ids = [model.full_id for model in models]
    return KnownTarget(
        sha256=target_sha256(dict(zip(full_ids, target.tolist(), strict=True))),
        models={m.full_id: GroupedModel(m.model_id, m.family, m.series) for m in models},
    )


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
        return without_rounding(-self.values if self.direction == "lower" else self.values)

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
    present: the same as entries of the record of metrics tested.
    recorded: other metrics that were tested for the problem; every adjustment counts them.
    tested_since: the day of the first test that is recorded; without one, today.
    changed_labels: models that were left out or put into another family or series since then.
    record_lost: whether nothing is recorded although the database is older.
    registered: preregistered metrics.
    baseline: name of the column that the others are compared with; empty for perplexity.
    without_target: full ids of the problem's models that have none (yet).
    argument: the value of `--problem`, where it isn't the problem's name.
    build: the command that builds its metrics.
    target_source: where the target came from, for the record.
    dtypes: number formats the models were run in, each with the full ids of its models.
    attention: implementations of attention that they were run with.
    lengths: numbers of tokens read of the first document that was cut at different lengths, each
        with the full ids of its models; empty if there is none.
    state: what the values were made from, and what is there now.
    """

    problem: str
    models: tuple[Model, ...]
    target: Floats
    columns: tuple[MetricColumn, ...]
    without_target: tuple[str, ...]
    target_source: dict[str, Any]
    dtypes: dict[str, tuple[str, ...]]
    lengths: dict[int, tuple[str, ...]] = field(default_factory=dict)
    state: BuildState = UNRECORDED
    attention: tuple[str, ...] = ()
    present: tuple[MetricRecord, ...] = ()
    recorded: tuple[MetricColumn, ...] = ()
    tested_since: str = ""
    changed_labels: tuple[str, ...] = ()
    record_lost: bool = False
    registered: tuple[PreregisteredMetric, ...] = ()
    baseline: str = ""
    argument: str = ""
    build: str = "tokenmart dbt build"

    @property
    def option(self) -> str:
        """The value of `--problem` that selects this problem, for commands in messages."""
        return self.argument or self.problem

    @property
    def outdated(self) -> bool:
        """Whether something that the values were made from has changed since."""
        return bool(self.state.changed)

    @property
    def known_target(self) -> KnownTarget:
        """What identifies the target in the record of metrics tested."""
        return known_target(self.models, self.target)

    @property
    def everything(self) -> tuple[MetricColumn, ...]:
        """All metrics recorded as tested: every adjusted p counts them."""
        return (*self.columns, *self.recorded)

    @property
    def tested(self) -> dict[str, int]:
        """Numbers of metrics tested: variants of this build, of earlier ones, and ideas."""
        ideas = sum(column.kind != "variant" for column in self.everything)
        built = sum(column.kind == "variant" for column in self.columns)
        return {
            "all": len(self.everything),
            "variants_of_this_build": built,
            "variants_of_earlier_builds": len(self.everything) - built - ideas,
            "ideas": ideas,
        }

    def named(self, metrics: Sequence[str]) -> tuple[MetricColumn, ...]:
        """The columns of these METRICs or METRIC/VARIANTs, to be shown; all when none is named.

        Raises:
            TokenmartError: no such metric or variant.
        """
        known = {name for column in self.columns for name in (column.metric, column.name)}
        for given in metrics:
            if given not in known:
                metric = any(column.metric == given.partition("/")[0] for column in self.columns)
                raise TokenmartError(
                    f"--metric {given}: no such metric or variant of {self.problem}; "
                    f"{did_you_mean(given, known)}see `tokenmart metrics list`",
                    code="unknown-variant" if metric else "unknown-metric",
                    where=given,
                )
        return tuple(
            c for c in self.columns if not metrics or c.metric in metrics or c.name in metrics
        )

    @property
    def families(self) -> tuple[str, ...]:
        """The family of each model."""
        return tuple(model.family for model in self.models)

    @property
    def series_across_families(self) -> tuple[str, ...]:
        """The dose series or training run of each model, in any family; else its full id."""
        return tuple(model.series or model.full_id for model in self.models)

    @property
    def series(self) -> tuple[str, ...]:
        """Family and series of each model: what a bootstrap over models draws as wholes."""
        series = zip(self.families, self.series_across_families, strict=True)
        return tuple(f"{family}/{name}" for family, name in series)

    @property
    def developers(self) -> tuple[str, ...]:
        """Who published each model: what its id has before the `/`; without one, its family."""
        return tuple(
            model.full_id.partition("/")[0] if "/" in model.full_id else model.family
            for model in self.models
        )

    @property
    def groupings(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Groups of models beside families: series and developers."""
        return self.series_across_families, self.developers

    @property
    def target_errors(self) -> Floats:
        """`[models]` standard error of the target, NaN where unknown."""
        known = self.target_source.get("stderr") or {}
        errors = [known.get(model.model_id) for model in self.models]
        return np.array([math.nan if error is None else float(error) for error in errors])

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
        columns = self.named([name])
        if len(columns) != 1:
            raise TokenmartError(
                f"--metric {name}: has several variants; choose from "
                f"{', '.join(column.name for column in columns)}",
                code="several-variants",
                where=name,
            )
        return columns[0]

    def fewer_documents(self, column: MetricColumn) -> dict[str, int]:
        """Full id → documents, of the models with fewer than another; empty where none has."""
        counts = {
            model.full_id: documents
            for model, documents, is_present in zip(
                self.models, column.documents, column.present, strict=False
            )
            if is_present
        }
        most = max(counts.values(), default=0)
        return {full_id: count for full_id, count in counts.items() if count < most}
