"""What a benchmark's scores over training are worth, by brute force in numpy and scipy."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.stats import pearsonr, rankdata


def monotonicity(scores: list[float], ranks: str = "ordinal") -> float:
    """max(0, 1 - 6 Σd² / (n(n² - 1))); `ranks` as in scipy, `ordinal` keeps ties in order."""
    n = len(scores)
    d = np.arange(1, n + 1) - rankdata(scores, method=ranks)
    return max(0.0, 1 - 6 * float(np.sum(d**2)) / (n * (n**2 - 1)))


def autocorrelation(scores: list[float]) -> float:
    """Mean of |Pearson| over lags 1 … ⌊n/4⌋ - 1."""
    y = np.asarray(scores)
    lags = range(1, len(y) // 4)
    return float(np.mean([abs(pearsonr(y[lag:], y[:-lag]).statistic) for lag in lags]))


def order_agreement(one: dict[str, float], other: dict[str, float]) -> float:
    """Share of pairs in both that are ordered alike; a tie in either is half."""
    pairs = combinations(sorted(one.keys() & other.keys()), 2)
    found = [np.sign(one[a] - one[b]) * np.sign(other[a] - other[b]) for a, b in pairs]
    return float(np.mean([(1 + value) / 2 for value in found]))


def site_query() -> str:
    """The tutorial's program that converts the JSON of the competition's site."""
    page = Path(__file__).parents[2] / "docs" / "tutorials" / "benchmarks_over_training.md"
    (program,) = re.findall(r"```python\n(# site_scores.py.*?)```", page.read_text(), re.DOTALL)
    return str(program)
