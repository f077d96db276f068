"""The documents of a variant, read from the mart, make the variant's own value again."""

from __future__ import annotations

import json
from typing import get_args

import numpy as np
import pytest
from click.testing import CliRunner
from json_records import records

from analysis.ranking.loading import document_parts
from analysis.ranking.metric_table import MetricColumn, MetricTable, Model
from analysis.statistics.correlations import spearman
from analysis.statistics.document_noise import Aggregation
from tokenmart import cli

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


def test_two_models_are_compared_by_the_metric_that_is_named(marts):
    """The default is perplexity in bytes; a metric without a value per document is no choice."""
    with marts.write() as connection:
        connection.execute(
            "create table metric_parts(problem varchar, metric varchar, variant varchar,"
            " model_id varchar, doc_id int, numerator double, denominator double, weight double)"
        )
        models = marts.models("minilong")[:3]
        for metric, variant in (("perplexity", "bits_per_byte"), ("acc", "exam-0shot")):
            connection.executemany(
                "insert into metric_parts values ('minilong', ?, ?, ?, ?, ?, 1, 1)",
                [
                    (metric, variant, model, d, float(n == 0) if metric == "acc" else n + d / 10)
                    for n, model in enumerate(models[:2])
                    for d in range(DOCUMENTS)
                ],
            )
    names = [marts.full_ids("minilong")[models[0]], models[1]]

    def compared(*words):
        return CliRunner().invoke(cli, ["compare", "--problem", "minilong", *words])

    (record,) = records(compared(*names, "--json"), "compare")
    assert (record["metric"], record["test"]) == ("perplexity/bits_per_byte", "sign-flip")
    assert record["difference"] == pytest.approx(-1) and record["lower"] == DOCUMENTS
    assert record["p"] == pytest.approx(2 / 2**DOCUMENTS)
    (record,) = json.loads(compared(*names, "--metric", "acc/exam-0shot", "--json").stdout)
    assert (record["test"], record["difference"]) == ("mcnemar", 1.0)
    assert "mcnemar" in compared(*names, "--metric", "acc/exam-0shot").output
    for words, named in (
        ([models[0], models[2]], models[2]),
        ([*names, "--metric", "acc"], "acc"),
    ):
        refused = compared(*words)
        assert refused.exit_code == 1 and refused.stderr.count("\n") == 1
        assert repr(named) in refused.stderr
