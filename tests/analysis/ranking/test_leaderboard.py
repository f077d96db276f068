"""What the leaderboard says of each row, over made-up columns."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from analysis.ranking.leaderboard import rank_metrics
from analysis.ranking.leaderboard_view import _document_note
from analysis.ranking.metric_table import MetricColumn, MetricTable, Model

MODELS = 17


def column(values, number):
    return MetricColumn("made_up", f"v{number}", "noise", {}, "higher", True, "", values)


def table(values, target):
    """Models of families of their own."""
    models = tuple(Model(f"m{n}", f"a/m{n}", f"f{n}", None) for n in range(target.size))
    columns = tuple(column(row, number) for number, row in enumerate(values))
    return MetricTable("made_up", models, target, columns, (), {}, {})


def test_the_best_of_many_variants_that_lack_a_model_is_no_discovery_among_noise():
    """Three complete variants and 150 that lack a model, 10 studies: the interval counts all."""
    found = 0
    for seed in range(10):
        generator = np.random.default_rng(seed)
        values = generator.normal(size=(153, MODELS))
        values[3:, 0] = np.nan
        board = rank_metrics(table(values, generator.normal(size=MODELS)), seed, 1, top=0)
        best = board.rows[0].interval
        assert best.low < best.high
        found += best.low > 0 or best.high < 0
    assert found <= 1


@pytest.mark.parametrize(
    ("resting", "told"),
    [
        ((0, 0), "empty, since no value here rests on two documents or more"),
        ((2, 1), "no metric_parts to draw from; run `tokenmart dbt build`"),
    ],
)
def test_the_reason_for_no_resampling_is_printed(resting, told):
    row = SimpleNamespace(documents=None, column=SimpleNamespace(documents=resting))
    assert _document_note([row]) == f"new docs, pairs: {told}"


def test_what_completes_a_table_of_scores_is_no_extraction() -> None:
    """`tokenmart extract` refuses a problem of kind `table`, of which no tokens are stored."""
    table = MetricTable("mine", (), np.zeros(0), (), (), {}, {}, asked="my/mine.yml")
    assert table.remedy == (
        "add the missing scores to its table, then run `tokenmart data fetch --problem "
        "my/mine.yml` and `tokenmart dbt build`"
    )
    extracted = replace(table, extracted=frozenset({"m"}))
    assert extracted.remedy == (
        "run `tokenmart extract --problem my/mine.yml` and `tokenmart dbt build`"
    )
