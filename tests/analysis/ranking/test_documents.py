"""The documents of a variant, read from the mart, make the variant's own value again."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from analysis.ranking.loading import document_parts
from analysis.ranking.metric_table import MetricColumn, MetricTable, Model
from analysis.statistics.correlations import spearman
from analysis.statistics.document_noise import Aggregation

MODELS, DOCUMENTS = 9, 12


def value(numerator, denominator, weight, aggregation):
    """`[n]` as the metric library makes it of `[n, D]` parts."""
    ratio = numerator / denominator
    if aggregation == "micro":
        return numerator.sum(axis=1) / denominator.sum(axis=1)
    if aggregation == "weighted":
        return (ratio * weight).sum(axis=1) / weight.sum(axis=1)
    return ratio.mean(axis=1)


@pytest.mark.parametrize("direction", ["higher", "lower"])
@pytest.mark.parametrize("aggregation", get_args(Aggregation))
def test_all_documents_give_the_correlation_of_the_column(marts, aggregation, direction):
    generator = np.random.default_rng(3)
    numerator, denominator, weight = generator.uniform(0.5, 2.0, size=(3, MODELS, DOCUMENTS))
    column = MetricColumn(
        metric="made_up",
        variant="a",
        family="likelihood",
        parameters={"aggregation": aggregation},
        direction=direction,
        admissible=True,
        formula="",
        values=value(numerator, denominator, weight, aggregation),
    )
    models = tuple(Model(f"m{n}", f"a/m{n}", "f", None) for n in range(MODELS))
    target = generator.normal(size=MODELS)
    table = MetricTable("minilong", models, target, (column,), (), {}, {})
    with marts.write() as connection:
        connection.execute(
            "create table metric_parts(problem varchar, metric varchar, variant varchar,"
            " model_id varchar, doc_id int, numerator double, denominator double, weight double)"
        )
        connection.executemany(
            "insert into metric_parts values ('minilong', 'made_up', 'a', ?, ?, ?, ?, ?)",
            [
                (f"m{n}", d, *(float(part[n, d]) for part in (numerator, denominator, weight)))
                for n in range(MODELS)
                for d in range(DOCUMENTS)
            ],
        )
    parts = document_parts(marts.workspace, table, column)
    assert parts is not None
    whole = parts.values(np.ones((1, DOCUMENTS)))[0]
    assert whole == pytest.approx(column.oriented)
    assert spearman(whole, target) == pytest.approx(spearman(column.oriented, target))
