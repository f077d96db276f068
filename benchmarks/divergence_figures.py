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
NAMES = {
    "smollm2-135m": "reference",
    "smollm2-135m-rope-base-40k": "RoPE base 40,000",
    "smollm2-135m-4-bit": "weights rounded to 4 bits again",
    "smollm2-135m-drop-last-1": "without its last layer",
}
"""Models of the page's table, in its order."""


def figures(database: Path) -> dict[str, Any]:
    """Model → statistic → value and 95% interval over documents."""
    with duckdb.connect(str(database), read_only=True) as connection:
        rows = connection.execute(
            "select model_id, metric, variant, numerator, denominator from metric_documents"
            " where problem = 'how_far' order by doc_id"
        ).fetchall()
    statistics: dict[str, Any] = {}
    for model in sorted({row[0] for row in rows}):
        for name, key in METRICS.items():
            parts = np.array([row[3:] for row in rows if (row[0], row[1:3]) == (model, key)])
            draws = np.random.default_rng(0).integers(0, len(parts), (RESAMPLES, len(parts)))
            drawn = parts[draws].sum(1)
            numbers = [*parts.sum(0)[None], *drawn]
            values = np.array([top / bottom for top, bottom in numbers])
            if name == "perplexity":
                values = np.exp(values)
            low, high = np.quantile(values[1:], [0.025, 0.975])
            figure = {"value": values[0], "low": low, "high": high, "documents": len(parts)}
            statistics.setdefault(model, {})[name] = {
                key: round(float(value), 6) for key, value in figure.items()
            }
    return statistics


def table_rows(statistics: dict[str, Any]) -> list[str]:
    """The rows of the page's table: values with their 95% intervals."""
    rows = []
    for model, name in NAMES.items():
        perplexity, mean, tail, same = (
            statistics[model][key] for key in ("perplexity", "mean", "quantile_0.99", "same_top")
        )
        cells = [_shown(perplexity, ".0f" if perplexity["value"] >= 100 else ".1f")]
        if name == "reference":
            cells += ["0", "0", "100%"]
        else:
            share = {key: 100 * value for key, value in same.items()}
            cells += [
                _shown(mean, ".2f" if mean["value"] >= 1 else ".3f"),
                _shown(tail, ".1f" if tail["value"] >= 10 else ".2f"),
                _shown(share, ".1f", "%"),
            ]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return rows


def _shown(figure: dict[str, float], precision: str, unit: str = "") -> str:
    value, low, high = (format(figure[key], precision) for key in ("value", "low", "high"))
    return f"{value}{unit} [{low}, {high}]"


if __name__ == "__main__":
    text = json.dumps(figures(find_workspace(Path(__file__)).database), indent=1)
    FIGURES.write_text(f"{text}\n", encoding="utf-8")
