"""Divide units among actors so that each checkpoint is loaded by as few actors as possible."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from extract.planning.tables import Plan

Unit = tuple[str, int]
"""Full id of the model, and document; all missing conditions of the document are one task."""


LEAST_SHARE = 0.01
"""Minimum share of work of a model, because finding its files takes time too."""


def costs(plan: Plan) -> dict[str, float]:
    """Cost of one document of each model, in proportion to the remaining work of the model."""
    return {
        model.spec.full_id: max(model.left, LEAST_SHARE) * (model.cost.seconds or 1.0)
        for model in plan.models
    }


def place(
    work: Mapping[str, Sequence[int]], cost: Mapping[str, float], count: int
) -> list[list[Unit]]:
    """Divide the work, model by model, into parts of about equal cost.

    A model is split only if a cut falls inside it: with S actors and M models there are at most
    M + S - 1 loads.

    Args:
        work: remaining documents of each model.
        cost: cost of one document of each model, in any unit.
        count: number of parts.
    """
    # the largest models first, so that the last cuts fall among small models
    models = sorted(work, key=lambda name: (-cost[name] * len(work[name]), name))
    units = [(name, document) for name in models for document in work[name]]
    total = sum(cost[name] for name, _ in units)
    parts: list[list[Unit]] = [[] for _ in range(count)]
    so_far = 0.0
    for unit in units:
        middle = so_far + cost[unit[0]] / 2
        parts[min(count - 1, int(middle * count / total))].append(unit)
        so_far += cost[unit[0]]
    return parts


class Queues:
    """Queues of the actors; idle actors take from the longest queue."""

    def __init__(self, parts: Sequence[Sequence[Unit]]) -> None:
        self.parts = {number: deque(part) for number, part in enumerate(parts)}

    def next_for(self, number: int) -> Unit | None:
        """The actor's next unit; an idle actor takes the last half of the longest other queue.

        A single unit in a queue is not moved, because another load of its checkpoint would take
        longer.
        """
        part = self.parts[number]
        if not part:
            longest = max(self.parts.values(), key=len)
            taken = [longest.pop() for _ in range(len(longest) // 2)]
            part.extend(reversed(taken))
        return part.popleft() if part else None

    def again(self, number: int, unit: Unit) -> None:
        """Add a unit at the end of an actor's queue."""
        self.parts[number].append(unit)

    def close(self, number: int, unit: Unit | None) -> None:
        """Move the units of a lost actor, and the one it was scoring, to the shortest queue."""
        left = list(self.parts.pop(number))
        if self.parts:
            heir = min(self.parts.values(), key=len)
            heir.extend([unit, *left] if unit else left)

    def __len__(self) -> int:
        return sum(map(len, self.parts.values()))
