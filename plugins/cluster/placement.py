"""Which actor takes which units: a checkpoint is loaded by as few as its work needs."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from extract.planning.tables import Plan

Unit = tuple[str, int]
"""Full id of the model, and the document: all its missing conditions are one task."""


LEAST_SHARE = 0.01
"""Least share of work counted for a model: finding its files takes time, too."""


def costs(plan: Plan) -> dict[str, float]:
    """Of one document of each model, in proportion to what seems left of the model."""
    return {
        model.spec.full_id: max(model.left, LEAST_SHARE) * (model.cost.seconds or 1.0)
        for model in plan.models
    }


def place(
    work: Mapping[str, Sequence[int]], cost: Mapping[str, float], seats: int
) -> list[list[Unit]]:
    """Cut the work, model after model, into parts of about equal cost.

    A model is split only where a cut falls inside it: with S seats and M models there are at most
    M + S - 1 loads.

    Args:
        work: documents left of each model.
        cost: of one document of each model, in any unit.
        seats: how many parts.
    """
    # the largest first: the last cuts fall among small models
    models = sorted(work, key=lambda name: (-cost[name] * len(work[name]), name))
    units = [(name, document) for name in models for document in work[name]]
    total = sum(cost[name] for name, _ in units)
    parts: list[list[Unit]] = [[] for _ in range(seats)]
    so_far = 0.0
    for unit in units:
        middle = so_far + cost[unit[0]] / 2
        parts[min(seats - 1, int(middle * seats / total))].append(unit)
        so_far += cost[unit[0]]
    return parts


class Queues:
    """Queues of the actors; idle actors take from the longest queue."""

    def __init__(self, parts: Sequence[Sequence[Unit]]) -> None:
        self.parts = {seat: deque(part) for seat, part in enumerate(parts)}

    def next_for(self, seat: int) -> Unit | None:
        """The seat's next unit: its own, else the last half of the longest queue of the others.

        One that is alone in its queue stays: another load of the checkpoint would take longer.
        """
        own = self.parts[seat]
        if not own:
            longest = max(self.parts.values(), key=len)
            taken = [longest.pop() for _ in range(len(longest) // 2)]
            own.extend(reversed(taken))
        return own.popleft() if own else None

    def again(self, seat: int, unit: Unit) -> None:
        """Put a unit at the end of a seat's queue."""
        self.parts[seat].append(unit)

    def close(self, seat: int, unit: Unit | None) -> None:
        """Give what a lost seat had, and the unit it was at, to the shortest queue."""
        left = list(self.parts.pop(seat))
        if self.parts:
            heir = min(self.parts.values(), key=len)
            heir.extend([unit, *left] if unit else left)

    def __len__(self) -> int:
        return sum(map(len, self.parts.values()))
