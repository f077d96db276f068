"""What a correlation hangs on: the kinds of models that were taken, the parts of the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from analysis.statistics.correlations import Floats, spearman

FEWEST = 5
"""Fewer models than these are not correlated."""


@dataclass(frozen=True)
class Without:
    """Spearman with the target when models of some kinds are left out.

    Attributes:
        kinds: those left out.
        models: how many are left.
        spearman: NaN with fewer than `FEWEST` left.
    """

    kinds: tuple[str, ...]
    models: int
    spearman: float


@dataclass(frozen=True)
class KindsLeftOut:
    """How far a correlation depends on the universe.

    Attributes:
        each: one kind left out, by name.
        lowest, highest: with two kinds left out, whichever moves it furthest; None where three
            kinds are too few to leave out two.
    """

    each: tuple[Without, ...]
    lowest: Without | None
    highest: Without | None


def kinds_left_out(oriented: Floats, target: Floats, kinds: Sequence[str]) -> KindsLeftOut:
    """Correlate without each kind of models, and without each two.

    Args:
        oriented: `[n]`, with the sign that makes higher better, complete.
        target: `[n]`.
        kinds: of the models.
    """
    names = sorted(set(kinds))
    each = tuple(_without(oriented, target, kinds, (name,)) for name in names)
    pairs = [_without(oriented, target, kinds, pair) for pair in combinations(names, 2)]
    known = [pair for pair in pairs if not np.isnan(pair.spearman)]
    return KindsLeftOut(
        each,
        min(known, key=lambda pair: pair.spearman, default=None),
        max(known, key=lambda pair: pair.spearman, default=None),
    )


def _without(
    oriented: Floats, target: Floats, kinds: Sequence[str], left_out: tuple[str, ...]
) -> Without:
    kept = np.array([kind not in left_out for kind in kinds])
    models = int(kept.sum())
    rho = spearman(oriented[kept], target[kept]) if models >= FEWEST else float("nan")
    return Without(left_out, models, rho)


def by_part(oriented: Floats, parts: Mapping[str, Floats]) -> dict[str, float]:
    """Spearman with each part of the target, by its name; NaN where models lack a score.

    Args:
        oriented: `[n]`, complete.
        parts: name → `[n]`.
    """
    return {
        name: spearman(oriented, scores) if np.isfinite(scores).all() else float("nan")
        for name, scores in parts.items()
    }
