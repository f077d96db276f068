"""What was foretold for a problem, and whether it still is what was foretold."""

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
class Foretold:
    """A metric of an entry; `changed` names what is no longer as it was said."""

    entry: Entry
    metric: RegisteredMetric
    changed: tuple[str, ...]

    @property
    def counts(self) -> bool:
        """Whether it may be tested at the entry's level: said before labels, and kept to."""
        return self.entry.before_labels and not self.changed


def foretold(workspace: Workspace, problem: Ranked) -> tuple[Foretold, ...]:
    """Every pre-registered metric of a problem, oldest first.

    Raises:
        TokenmartError: the file can't be read, or an entry was edited.
    """
    return tuple(
        Foretold(entry, metric, tuple(_changes(workspace, problem, entry, metric)))
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
