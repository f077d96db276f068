"""Do models behave as one series although no label joins them?

Families and series are what the problem file states. Where it states too few, models that share a
checkpoint count as independent ones. The metrics show it without the target: models of one origin
have similar values in all of them.

**Test.** Each metric's values become normal scores. The similarity of two models is the cosine of
their centred scores over all metrics. Clusters are the nodes of the average-linkage tree, and the
statistic of one is the sum of its similarities by the root of their number. Were models independent
draws from a normal law, whatever the correlations of the metrics (a general factor, variants), the
left singular vectors of the scores would be uniformly distributed and independent of the singular
values: the null distribution of the largest statistic is that of random rotations (Langsrud 2005,
'Rotation tests').
"""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import average
from scipy.spatial.distance import squareform
from scipy.stats import norm, rankdata

from analysis.statistics.correlations import Floats

LEVEL = 0.05
ROTATIONS = 199
LEAST_METRICS = 6
LEAST_UNITS, MOST_UNITS = 8, 300
"""Models that no label joins: with fewer there is no null distribution, with more no time."""

Cluster = tuple[int, ...]


def unlabelled_clusters(metrics: Floats, labels: list[int], seed: int = 0) -> list[Cluster]:
    """Clusters of models that no label joins, each as places in `labels`, the clearest first.

    Args:
        metrics: `[K, n]`, complete; one for each thing that is measured.
        labels: `[n]`; models with one label are known to belong together and count as one, by
            their mean.
        seed: of the rotations.
    """
    names = list(dict.fromkeys(labels))
    if len(metrics) < LEAST_METRICS or not LEAST_UNITS <= len(names) <= MOST_UNITS:
        return []
    scores = norm.ppf((rankdata(metrics, axis=1) - 0.5) / metrics.shape[1])
    member = np.array([[label == name for label in labels] for name in names], dtype=float)
    units = (member / member.sum(axis=1, keepdims=True)) @ scores.T
    units -= units.mean(axis=0)
    left, sizes, _ = np.linalg.svd(units, full_matrices=False)
    rank = int((sizes > 1e-9 * sizes[0]).sum()) if sizes[0] > 0 else 0
    if rank < 2:
        return []
    observed = _nodes(left[:, :rank] * sizes[:rank])
    generator = np.random.default_rng([seed, 6])
    largest = []
    for _ in range(ROTATIONS):
        drawn = generator.normal(size=(len(names), rank))
        rotated, triangle = np.linalg.qr(drawn - drawn.mean(axis=0))
        rotated *= np.sign(np.diag(triangle))
        largest.append(max(_nodes(rotated * sizes[:rank]))[0])
    limit = float(np.quantile(largest, 1.0 - LEVEL, method="higher"))
    clusters: list[Cluster] = []
    used: set[int] = set()
    for statistic, cluster in sorted(observed, reverse=True):
        if statistic > limit and not used & set(cluster):
            used |= set(cluster)
            joined = {names[unit] for unit in cluster}
            clusters.append(tuple(i for i, label in enumerate(labels) if label in joined))
    return clusters


def _nodes(points: Floats) -> list[tuple[float, Cluster]]:
    """Statistic and members of each node of the average-linkage tree of `[n, d]` points."""
    length = np.linalg.norm(points, axis=1, keepdims=True)
    unit = points / np.where(length > 0, length, 1.0)
    alike = np.clip(unit @ unit.T, -1.0, 1.0)
    np.fill_diagonal(alike, 1.0)
    tree = average(squareform(1.0 - alike, checks=False))
    members: list[Cluster] = [(i,) for i in range(len(points))]
    scored = []
    for first, second, *_ in tree[:-1].tolist():  # the last one has all
        cluster = tuple(sorted(members[int(first)] + members[int(second)]))
        members.append(cluster)
        pairs = len(cluster) * (len(cluster) - 1) / 2
        inside = alike[np.ix_(cluster, cluster)]
        scored.append((float((inside.sum() - len(cluster)) / 2 / pairs**0.5), cluster))
    return scored
