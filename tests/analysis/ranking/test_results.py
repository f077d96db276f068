"""What is concluded about each row, over made-up columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.ranking.metric_table import MetricColumn, MetricTable, Model
from analysis.ranking.results import rank_metrics
from analysis.ranking.view import notes

MODELS = 17


def column(values, number, metric="made_up"):
    return MetricColumn(metric, f"v{number}", "noise", {}, "higher", True, "", values)


def table(values, target):
    """Models of families of their own."""
    models = tuple(Model(f"m{n}", f"a{n}/m{n}", f"f{n}", None) for n in range(target.size))
    columns = tuple(column(row, number) for number, row in enumerate(values))
    return MetricTable("made_up", models, target, columns, (), {}, {})


def test_the_best_of_many_variants_that_lack_a_model_is_no_discovery_among_noise():
    """Three complete variants and 150 that lack a model, 10 studies: the interval counts all."""
    found = 0
    for seed in range(10):
        generator = np.random.default_rng(seed)
        values = generator.normal(size=(153, MODELS))
        values[3:, 0] = np.nan
        ranking = rank_metrics(table(values, generator.normal(size=MODELS)), seed)
        best = ranking.rows[0].interval
        assert best.low < best.high
        found += best.low > 0 or best.high < 0
    assert found <= 1


def test_comparisons_are_among_candidates_only():
    """An idea or a metric that needs a second model is decided on, and never the best."""
    target = np.arange(12.0)
    generator = np.random.default_rng(0)
    values = [target, target + 0.1, target + generator.normal(size=12), generator.normal(size=12)]
    made = table(np.stack(values), target)
    idea, other, *rest = made.columns
    columns = (replace(idea, kind="sql", admissible=False), replace(other, admissible=False), *rest)
    ranking = rank_metrics(replace(made, columns=columns), 0)
    assert [row.column.name for row in ranking.rows if row.verdict == "tracks"] == [
        "made_up/v0", "made_up/v1", "made_up/v2",
    ]  # fmt: skip
    assert ranking.best and ranking.best.column.name == "made_up/v2"
    official = {row.column.name for row in ranking.candidates}
    assert official == {"made_up/v2", "made_up/v3"}
    unofficial = rank_metrics(replace(made, columns=columns), 0, unofficial=True)
    assert unofficial.best and unofficial.best.column.name == "made_up/v1"


def test_developers_are_read_from_the_ids():
    made = table(np.zeros((1, 3)), np.arange(3.0))
    assert made.developers == ("a0", "a1", "a2")
    alone = tuple(replace(model, full_id=model.model_id) for model in made.models)
    assert replace(made, models=alone).developers == ("f0", "f1", "f2")


def test_rows_of_too_few_models_come_last():
    """Their correlation isn't shown: four models in the target's order are no evidence."""
    target = np.arange(9.0)
    few = np.where(target < 4, target, np.nan)
    ranking = rank_metrics(table(np.stack([few, -target, target]), target), 0)
    assert [row.column.variant for row in ranking.rows] == ["v2", "v1", "v0"]


def test_a_baseline_that_lacks_a_model_is_named():
    target = np.arange(9.0)
    made = table(np.stack([target, np.where(target < 8, target, np.nan)]), target)
    named = replace(made, baseline="made_up/v1")
    assert rank_metrics(named, 0).baseline is None
    assert rank_metrics(named, 0).without_baseline == "made_up/v1"
    assert rank_metrics(replace(made, baseline="made_up/v0"), 0).without_baseline == ""


def with_names(values, target):
    """Each row of `values` a metric of its own."""
    columns = tuple(column(row, n, f"metric_{n}") for n, row in enumerate(values))
    return replace(table(values, target), columns=columns)


def test_the_models_that_carry_a_claim_are_named():
    """Three models agree with the target and make it; among the others there is no relation."""
    generator = np.random.default_rng(2)
    target = np.concatenate([generator.normal(size=MODELS - 3), [20.0, 21.0, -20.0]])
    metric = np.concatenate([0.6 * target[:-3] + generator.normal(size=MODELS - 3), target[-3:]])
    found = rank_metrics(table(np.stack([metric]), target), 0)
    assert found.answer == "tracks" and found.carried
    assert len(found.carried.models) <= 3 and found.carried.rho < found.rows[0].rho
    assert "carried-by" in notes(found, found.rows)
    sure = rank_metrics(table(np.stack([target]), target), 0)
    assert sure.answer == "tracks" and sure.carried is None


@pytest.mark.parametrize("alike", [True, False])
def test_copies_without_a_label_are_joined(alike):
    """Ten of 17 models are doses of one: metrics show it, labels don't."""
    generator = np.random.default_rng(4)
    source = np.arange(MODELS) if not alike else np.array([0] * 10 + list(range(1, 8)))
    values = generator.normal(size=(20, MODELS))[:, source]
    values += 0.2 * generator.normal(size=values.shape)
    target = values[0] + 0.05 * generator.normal(size=MODELS)
    found = rank_metrics(with_names(values, target), 0)
    assert (found.joined is not None) == alike
    assert ("unlabelled-series" in notes(found, found.rows)) == alike
    if found.joined:
        assert found.joined.clusters[0] == tuple(f"a{n}/m{n}" for n in range(10))
        assert found.joined.decisions.overall.design_effect > found.decisions.overall.design_effect
