"""Make the numbers of oracle_simultaneous.json by brute force.

python tests/analysis/statistics/oracle_simultaneous.py

Three variables have a normal law with the correlations below: two metrics and a target. Each of
many samples gives two correlations with the target; the correlation of their Fisher z's over all
samples is what Olkin and Siotani's formula predicts for large n. Nothing of the project is used.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

POINTS, SAMPLES, PARTS = 200, 4000, 25
CASES = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.7), (0.5, 0.5, 0.6), (0.8, 0.3, 0.5), (0.9, -0.4, -0.2))


def correlation_of_z(first: float, second: float, between: float) -> float:
    """Of atanh(r) of both metrics with the target, over all samples."""
    covariance = np.array([[1, between, first], [between, 1, second], [first, second, 1]])
    root = np.linalg.cholesky(covariance)
    generator = np.random.default_rng(7)
    found = []
    for _ in range(PARTS):
        draws = root @ generator.normal(size=(SAMPLES, 3, POINTS))
        draws -= draws.mean(axis=2, keepdims=True)
        draws /= np.sqrt((draws**2).sum(axis=2, keepdims=True))
        found.append(np.arctanh((draws[:, :2] * draws[:, 2:]).sum(axis=2)))
    return float(np.corrcoef(np.concatenate(found).T)[0, 1])


if __name__ == "__main__":
    rows = [
        {"first": a, "second": b, "between": c, "correlation": round(correlation_of_z(a, b, c), 4)}
        for a, b, c in CASES
    ]
    record = {"samples": SAMPLES * PARTS, "points": POINTS, "cases": rows}
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
