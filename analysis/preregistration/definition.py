"""What is registered: a metric, the models, and hashes of everything that the values depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from warehouse.errors import TokenmartError
from warehouse.metrics.manifest import Metric, in_contexts, metric_code, metrics_in
from warehouse.paths import Workspace
from warehouse.plugins import folders as plugin_folders
from warehouse.problem.models import ModelSpec, series_of
from warehouse.problem.needed import all_conditions, identities_here
from warehouse.problem.spec import Problem
from warehouse.problem.unit_states import stored_texts
from warehouse.sources.documents import documents_table
from warehouse.sources.folders import ProblemFolders

if TYPE_CHECKING:
    from warehouse.problem.problem_files import Ranked

PACKAGE = Path(__file__).parents[2] / "warehouse"

UNKNOWN = ""
"""In place of a hash: what is hashed wasn't here. It is compared with nothing."""

Hashes = dict[str, str]
"""Of each part that was registered, by the name under which a change of it is reported."""


class Fixed(BaseModel):
    """Base of what an entry is made of."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RegisteredModel(Fixed):
    """A model of the study, with its groups: models of one group are not independent.

    settings: hash of what the problem file sets in it.
    files: identity of its files and of what is changed in them; `UNKNOWN` where they weren't here.
    """

    full_id: str
    family: str
    series: str = Field(alias="kind")  # its name in the files, over which the hashes are
    settings: str | None = None
    files: str | None = None


class RegisteredMetric(Fixed):
    """One variant of a metric with the direction it is expected to have.

    code: hashes of the code that its values are computed by; None in the first entries.
    definition: of the first entries, see `first_definition`.
    """

    metric: str
    variant: str
    direction: Literal["higher", "lower"]
    definition: str | None = None
    code: Hashes | None = None

    @property
    def name(self) -> str:
        """`metric/variant`."""
        return f"{self.metric}/{self.variant}"


def define(manifest: Mapping[str, Any], problem: Problem, text: str) -> RegisteredMetric:
    """Find what `METRIC/VARIANT` or `METRIC/VARIANT:DIRECTION` names in a problem.

    Args:
        manifest: dbt's, of the project that has the metric.
        problem: whose probes say in which contexts a variant can be computed.
        text: as given on the command line; the direction is by default the family's.

    Raises:
        TokenmartError: no such metric, variant or context, a metric that needs a second model, or
            another direction than higher or lower.
    """
    name, _, wanted = text.partition(":")
    metric, _, variant = name.partition("/")
    family = metrics_in(manifest).get(metric)
    contexts = problem.suffixes(family.needs) if family else ()
    bases = family.variants if family else ()
    direction = wanted or (family.direction if family else "")
    mistakes = {
        "unknown-metric": family is None,
        "not-admissible": family is not None and not family.admissible,
        "missing-probe": not contexts,
        "unknown-variant": all(variant not in in_contexts(base, contexts) for base in bases),
        "bad-direction": direction not in ("higher", "lower"),
    }
    for code, is_mistake in mistakes.items():
        if is_mistake:
            raise TokenmartError(
                f"--metric {text}: {code.replace('-', ' ')}; see `tokenmart metrics list --problem "
                f"{problem.argument}`",
                code=code,
                where=text,
            )
    return RegisteredMetric(
        metric=metric,
        variant=variant,
        direction="higher" if direction == "higher" else "lower",
        code=code_hashes(manifest, metric, variant),
    )


def code_hashes(manifest: Mapping[str, Any], metric: str, variant: str) -> Hashes:
    """Hashes of the code that a variant is computed by; empty if there is no such metric.

    Args:
        manifest: dbt's, of the project that has the metric.
        metric, variant: as in METRIC/VARIANT.
    """
    family = metrics_in(manifest).get(metric)
    if family is None:
        return {}
    settings = {f"settings of {metric}/{variant}": _variant_settings(family, variant)}
    return {
        name: _sha256(code) for name, code in (metric_code(manifest, metric) | settings).items()
    }


def problem_hashes(workspace: Workspace, problem: Problem) -> Hashes:
    """Hashes of what every metric of a problem depends on, except its models."""
    conditions = all_conditions(problem)
    identities = identities_here(problem, workspace, (), conditions)
    texts = text_hashes(workspace, problem)
    hashes = {
        "documents": _sha256(set_keys(problem.documents)),
        "texts": _sha256(texts) if texts else UNKNOWN,
        "compare": _sha256(problem.compare),
        "target": _sha256(problem.target and set_keys(problem.target)),
    }
    for condition in conditions:
        kind = condition.kind.name, condition.kind.revision
        hashes[f"condition {condition.name}"] = _sha256(
            [kind, condition.params, condition.reference]
        )
        if condition.reference:
            hashes[f"reference of {condition.name}"] = identities.get(condition.reference, UNKNOWN)
    files = [*PACKAGE.glob("*/*.sql"), PACKAGE / "sql" / "views.py"]
    for file in (*files, *(folder / "macros.sql" for folder in plugin_folders())):
        if file.is_file():
            name = f"{file.parent.parent.name}/{file.parent.name}/{file.name}"
            hashes[name] = _sha256(file.read_text(encoding="utf-8"))
    return dict(sorted(hashes.items()))


def registered_models(workspace: Workspace, problem: Ranked) -> tuple[RegisteredModel, ...]:
    """The models of a study, as an entry records them."""
    registered = []
    identities = {}
    if isinstance(problem, Problem):
        identities = identities_here(problem, workspace, problem.ranked_models, ())
    for model in problem.ranked_models:
        groups = {"full_id": model.full_id, "family": model.family, "kind": series_of(model)}
        hashes: dict[str, str] = {}
        if isinstance(model, ModelSpec):
            hashes["settings"] = _sha256(_model_settings(model))
            hashes["files"] = identities.get(model.full_id, UNKNOWN)
        registered.append(RegisteredModel(**groups, **hashes))
    return tuple(registered)


def first_definition(
    manifest: Mapping[str, Any], problem: Problem, metric: str, variant: str
) -> str:
    """The hash that the first entries have: over a variant's settings, and the problem's.

    Args:
        manifest: dbt's, of the project that has the metric.
        problem: whose documents, probes and target the metric is registered for.
        metric, variant: as in METRIC/VARIANT.
    """
    family = metrics_in(manifest).get(metric)
    parts = {
        "metric": _variant_settings(family, variant) if family else "",
        "documents": set_keys(problem.documents),
        "probes": [set_keys(probe) for probe in problem.probes],
        "target": problem.target and set_keys(problem.target),
    }
    return _sha256(parts)


def _variant_settings(family: Metric, variant: str) -> str:
    base = variant.partition("@")[0]  # what follows names the condition it is computed from
    return family.definition(base) if base in family.variants else ""


def set_keys(part: BaseModel) -> dict[str, Any]:
    """The keys set in a part of a problem file; new defaults of a later version change no hash.

    Where a file can be downloaded is no part of what was registered.
    """
    return part.model_dump(mode="json", exclude_defaults=True, exclude={"url"})


def text_hashes(workspace: Workspace, problem: Problem) -> list[str]:
    """sha256 of each text, in order: of the user's files as they are now, else of stored texts.

    Raises:
        TokenmartError: a text is here and can't be read.
    """
    source = problem.documents
    placed = source.placed(ProblemFolders(workspace, problem.name, True, problem.argument))
    if placed is None:
        return [text.sha256 for text in (stored_texts(problem, workspace) or {}).values()]
    table = documents_table(source.grouped(placed), source.max_characters)
    return [str(sha256) for sha256 in table["sha256"].to_pylist()]


def _model_settings(model: ModelSpec) -> dict[str, Any]:
    """The keys of a model that its rows depend on; the same files may be elsewhere."""
    names = {"source", "base", "dtype", "context", "rope", "bos", "interventions"}
    settings = model.model_dump(mode="json", exclude_defaults=True, include=names)
    settings["source"].pop("path", None)
    return settings


def _sha256(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
