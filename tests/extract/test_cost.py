"""The plan counts on the requests themselves, so it counts what the engine will run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_requests import RETRIEVAL, load

from extract.planning.cost import estimate, planned_reading, work_of
from extract.run import scoring_groups
from extract.scoring.engine import Engine
from warehouse.probes.full import FullProbe
from warehouse.probes.window import WindowProbe

FULL = FullProbe(kind="full").conditions()
WINDOW = WindowProbe(kind="window", name="w", context=24, stride=16).conditions()


@pytest.mark.parametrize(
    "selected",
    [FULL, WINDOW, RETRIEVAL.conditions(), [*FULL, *WINDOW, *RETRIEVAL.conditions()]],
    ids=["full", "window", "retrieval", "all"],
)
def test_the_plan_counts_the_tokens_that_the_engine_runs(
    selected: list[Any], tiny_checkpoint: Callable[..., Path]
) -> None:
    engine = Engine(load(tiny_checkpoint()))
    lengths = [60, 90]
    run = rows = 0
    for length in lengths:
        document = planned_reading(length)
        for group in scoring_groups(selected):
            requests = [request for each in group for request in each.build(document)]
            scored = engine.score(requests)
            run += sum(each.tokens_processed for each in scored)
            rows += sum(len(each.scores.logprob) for each in scored)
    work = work_of(lengths, selected)
    assert (work.tokens, work.rows) == (run, rows)


def test_pairs_and_flops_by_hand() -> None:
    full = work_of([100], FULL)
    assert (full.tokens, full.rows, full.pairs) == (100, 99, 100 * 100 / 2)
    # three excerpts of 8 + 6 tokens behind the 100, which the full condition has run
    behind = work_of([100], [*FULL, RETRIEVAL.conditions()[0]])
    assert behind.tokens == 100 + 3 * 14
    assert behind.pairs == full.pairs + 3 * 14 * (100 + 7)
    # a decoder of one layer of width 128 has 12 · 128² weights
    cost = estimate(full, parameters=12 * 128**2, dtype="bfloat16", device="cuda")
    assert cost.flops == pytest.approx(2 * 12 * 128**2 * 100 + 4 * 128 * full.pairs)
