"""Preregistered metrics of a problem, and what was changed since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.preregistration.definition import Covered, RegisteredMetric, definition_sha256
from analysis.preregistration.entry_file import Entry, entries, registered_models
from warehouse.errors import TokenmartError
from warehouse.problem.spec import Problem

if TYPE_CHECKING:
    from warehouse.paths import Workspace
    from warehouse.problem.problem_files import Ranked

_FIRST: tuple[Covered, ...] = ("metric",)
"""The content that hashes of the first entries cover."""


@dataclass(frozen=True)
class PreregisteredMetric:
    """A metric of an entry; `changed` names what differs from the entry now.

    replaced: by a later entry, written before labels were known.
    """

    entry: Entry
    metric: RegisteredMetric
    changed: tuple[str, ...]
    replaced: bool = False

    @property
    def counts(self) -> bool:
        """Whether it may be tested at the entry's level: before labels, and unchanged since."""
        return self.entry.before_labels and not self.changed


def preregistered_metrics(workspace: Workspace, problem: Ranked) -> tuple[PreregisteredMetric, ...]:
    """Every preregistered metric of a problem, oldest first.

    Raises:
        TokenmartError: the file can't be read, or an entry was edited.
    """
    there = entries(workspace, problem.name)
    replaced = {entry.supersedes: entry for entry in there}
    return tuple(
        PreregisteredMetric(
            entry,
            metric,
            (*_replaced(replaced.get(entry.number)), *_changes(workspace, problem, entry, metric)),
            entry.number in replaced,
        )
        for entry in there
        for metric in entry.metrics
    )


def _replaced(by: Entry | None) -> list[str]:
    return [] if by is None else [f"entry {by.number} replaced it ({by.reason})"]


def _changes(
    workspace: Workspace, problem: Ranked, entry: Entry, metric: RegisteredMetric
) -> list[str]:
    now = {model.full_id: model for model in registered_models(problem)}
    then = {model.full_id: model for model in entry.models}
    found = [f"{full_id} was left out" for full_id in then if full_id not in now]
    found += [f"{full_id} was added" for full_id in now if full_id not in then]
    found += [
        f"{full_id} was put into another family or kind"
        for full_id in then
        if full_id in now and now[full_id] != then[full_id]
    ]
    if not isinstance(problem, Problem):
        return [*found, "a table of scores was put in the problem's place"]
    known = problem.labels_known_since
    if known is not None and entry.recorded_at >= known.isoformat():
        found.insert(0, f"the problem file states that labels were known from {known} on")
    try:
        same = metric.definition == definition_sha256(
            workspace.dbt_project, problem, metric.metric, metric.variant, entry.covers or _FIRST
        )
    except TokenmartError:
        same = False
    covered = "definition" if entry.covers is None else "definition, documents, probes or target"
    return found if same else [*found, f"{metric.name} was given another {covered}"]
