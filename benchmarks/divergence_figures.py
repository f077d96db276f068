"""Figures of docs/how_to/divergence.md, from a built warehouse of benchmarks/divergence.yml.

    tokenmart extract --problem benchmarks/divergence.yml
    tokenmart dbt build
    python benchmarks/divergence_figures.py     # writes docs/divergence_figures.json

Intervals are of 10,000 resamples of the documents, with a fixed seed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from warehouse.paths import find_workspace

FIGURES = Path(__file__).parents[1] / "docs" / "divergence_figures.json"
METRICS = {
    "perplexity": ("perplexity", "micro"),
    "mean": ("divergence", "mean@divergence"),
    "reverse": ("divergence", "reverse@divergence"),
    "median": ("divergence", "median@divergence"),
    "quantile_0.99": ("divergence", "quantile_0.99@divergence"),
    "same_top": ("same_top", "share@divergence"),
}
RESAMPLES = 10_000


def figures(database: Path) -> dict[str, Any]:
    """Model → statistic → value and 95% interval over documents."""
    with duckdb.connect(str(database), read_only=True) as connection:
        rows = connection.execute(
            "select model_id, metric, variant, numerator, denominator from metric_documents"
            " where problem = 'how_far' order by doc_id"
        ).fetchall()
    found: dict[str, Any] = {}
    for model in sorted({row[0] for row in rows}):
        for name, key in METRICS.items():
            own = np.array([row[3:] for row in rows if (row[0], row[1:3]) == (model, key)])
            draws = np.random.default_rng(0).integers(0, len(own), (RESAMPLES, len(own)))
            drawn = own[draws].sum(1)
            numbers = [*own.sum(0)[None], *drawn]
            values = np.array([top / bottom for top, bottom in numbers])
            if name == "perplexity":
                values = np.exp(values)
            low, high = np.quantile(values[1:], [0.025, 0.975])
            figure = {"value": values[0], "low": low, "high": high, "documents": len(own)}
            found.setdefault(model, {})[name] = {
                key: round(float(value), 6) for key, value in figure.items()
            }
    return found


if __name__ == "__main__":
    text = json.dumps(figures(find_workspace(Path(__file__)).database), indent=1)
    FIGURES.write_text(f"{text}\n", encoding="utf-8")
