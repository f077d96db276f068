"""Models that behave as one series without a label are found, from the metrics alone."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.statistics.unlabelled import unlabelled_clusters

SIZES = (9, 5, 2, 1)
FAMILIES = np.repeat(np.arange(4), SIZES)
ALONE = list(range(17))


def made_up(seed, share, factor=0.0, metrics=20, families=FAMILIES):
    """Metrics that share a general factor; families share a part of the variance."""
    generator = np.random.default_rng(seed)

    def columns(*shape):
        levels = generator.normal(size=(*shape, families.max() + 1))[..., families]
        own = generator.normal(size=(*shape, families.size))
        return share**0.5 * levels + (1 - share) ** 0.5 * own

    return factor * columns() + (1 - factor**2) ** 0.5 * columns(metrics)


@pytest.mark.parametrize("factor", [0.0, 0.8])
def test_independent_models_are_rarely_joined(factor):
    found = [unlabelled_clusters(made_up(s, 0.0, factor), ALONE, s) for s in range(15)]
    assert sum(map(bool, found)) <= 3  # 0.75 expected; more than 3 once in 180


def test_copies_are_joined_with_their_own_only():
    found = unlabelled_clusters(made_up(1, 0.9), ALONE)
    assert tuple(range(9)) in found
    for cluster in found:
        assert len({FAMILIES[place] for place in cluster}) == 1
    scaled = np.exp(made_up(1, 0.9))[::-1]
    assert unlabelled_clusters(scaled, ALONE) == found, "ranks, in any order of the metrics"


def test_what_a_label_joins_is_not_named():
    eight = np.repeat(np.arange(8), 3)
    assert unlabelled_clusters(made_up(1, 0.9, families=eight), eight.tolist()) == []
    assert unlabelled_clusters(made_up(1, 0.9), FAMILIES.tolist()) == [], "too few to compare"
    assert unlabelled_clusters(made_up(1, 0.9)[:5], ALONE) == []
    assert unlabelled_clusters(np.ones((20, 17)), ALONE) == []
