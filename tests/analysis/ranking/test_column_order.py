"""No number reported for a metric depends on the position of its column."""

from __future__ import annotations

import numpy as np

from analysis.ranking.metric_table import MetricColumn, MetricTable, Model
from analysis.ranking.record import ranking_record
from analysis.ranking.results import rank_metrics

FAMILIES = "q" * 9 + "l" * 5 + "mm" + "y"


def table(order):
    """20 variants of 17 models: noise, a good one, copies of both that rank models alike."""
    generator = np.random.default_rng(4)
    target = generator.normal(size=17)
    values = generator.normal(size=(20, 17))
    values[3] = target + 0.5 * generator.normal(size=17)
    values[4], values[5] = np.exp(values[3]), 3 * values[0]
    values[6] = np.where(np.arange(17) < 9, values[3], np.nan)
    names = ["perplexity", "perplexity", *["made_up"] * 18]
    columns = [
        MetricColumn(name, f"v{number}", "noise", {}, "higher", True, "", row)
        for number, (name, row) in enumerate(zip(names, values, strict=True))
    ]
    models = tuple(
        Model(f"m{n}", f"lab-{family}/m{n}", family, None) for n, family in enumerate(FAMILIES)
    )
    shown = tuple(columns[place] for place in order)
    return MetricTable("p", models, target, shown, (), {}, {}, baseline="perplexity/v1")


def test_the_record_is_the_same_in_any_order_of_columns():
    orders = [np.arange(20), np.arange(20)[::-1], np.random.default_rng(0).permutation(20)]
    records = []
    for order in orders:
        made = table(order)
        ranking = rank_metrics(made, 0, splits=50)
        records.append(ranking_record(ranking, ranking.rows, ranking.rows[:3], resamples=20))
    assert records[0] == records[1] == records[2]
    assert records[0]["best"] and records[0]["choice"]["splits"] > 1
