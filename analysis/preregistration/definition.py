"""A metric as it is registered, and a hash over everything that its values depend on."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from warehouse.errors import TokenmartError
from warehouse.metrics.manifest import in_contexts, read_metrics
from warehouse.paths import Workspace

if TYPE_CHECKING:
    from warehouse.problem.spec import Problem

COVERED = ("metric", "documents", "probes", "target")
"""The content that a definition's hash covers."""


class Fixed(BaseModel):
    """Base of what an entry is made of."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RegisteredMetric(Fixed):
    """One variant of a metric with the direction it is expected to have.

    definition: see `definition_sha256`.
    """

    metric: str
    variant: str
    direction: Literal["higher", "lower"]
    definition: str

    @property
    def name(self) -> str:
        """`metric/variant`."""
        return f"{self.metric}/{self.variant}"


def define(workspace: Workspace, problem: Problem, text: str) -> RegisteredMetric:
    """Find what `METRIC/VARIANT` or `METRIC/VARIANT:DIRECTION` names in a problem.

    Args:
        workspace: whose dbt project has the metric.
        problem: whose probes say in which contexts a variant can be computed.
        text: as given on the command line; the direction is by default the family's.

    Raises:
        TokenmartError: no such metric, variant or context, a metric that needs a second model, or
            another direction than higher or lower.
    """
    name, _, wanted = text.partition(":")
    metric, _, variant = name.partition("/")
    family = read_metrics(workspace).get(metric)
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
    for code, there in mistakes.items():
        if there:
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
        definition=definition_sha256(workspace, problem, metric, variant),
    )


def definition_sha256(workspace: Workspace, problem: Problem, metric: str, variant: str) -> str:
    """Hash over what a metric's values and its test depend on.

    Args:
        workspace: whose dbt project has the metric.
        problem: whose documents, probes (with their excerpts) and target (with its tasks, lengths
            and contexts) the metric is registered for.
        metric, variant: as in METRIC/VARIANT.

    Raises:
        TokenmartError: dbt can't parse the project.
    """
    base = variant.partition("@")[0]  # what follows names the condition it is computed from
    family = read_metrics(workspace).get(metric)
    parts = (
        family.definition(base) if family and base in family.variants else "",
        _settings(problem.documents),
        [_settings(probe) for probe in problem.probes],
        problem.target and _settings(problem.target),
    )
    text = json.dumps(dict(zip(COVERED, parts, strict=True)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _settings(part: BaseModel) -> dict[str, Any]:
    """The keys set in a part of a problem file; new defaults of a later version change no hash.

    Where a file can be downloaded is no part of what was registered.
    """
    return part.model_dump(mode="json", exclude_defaults=True, exclude={"url"})
