"""The preregistered metrics of a problem, and what has changed since they were registered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.preregistration.definition import RegisteredMetric, definition_sha256
from analysis.preregistration.record import Entry, entries, registered_models
from warehouse.errors import TokenmartError

if TYPE_CHECKING:
    from warehouse.paths import Workspace
    from warehouse.problem.kinds import Ranked


@dataclass(frozen=True)
class Preregistered:
    """A metric of an entry; `changed` lists what differs from the entry."""

    entry: Entry
    metric: RegisteredMetric
    changed: tuple[str, ...]

    @property
    def counts(self) -> bool:
        """Whether the entry's level applies: registered before labels and unchanged since."""
        return self.entry.before_labels and not self.changed


def preregistered(workspace: Workspace, problem: Ranked) -> tuple[Preregistered, ...]:
    """Every pre-registered metric of a problem, oldest first.

    Raises:
        TokenmartError: the file can't be read, or an entry was edited.
    """
    return tuple(
        Preregistered(entry, metric, tuple(_changes(workspace, problem, entry, metric)))
        for entry in entries(workspace, problem.name)
        for metric in entry.metrics
    )


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
    try:
        same = metric.definition == definition_sha256(
            workspace.dbt_project, metric.metric, metric.variant
        )
    except TokenmartError:
        same = False
    return found if same else [*found, f"{metric.name} was given another definition"]
