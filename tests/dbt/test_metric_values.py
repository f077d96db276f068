"""Every family's values against the plain numpy implementations of `metric_oracle.py`."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator

import numpy as np
import pytest
from dbt_harness import PROJECT, SHAPE, Warehouse
from metric_oracle import Oracle, combine, longppl_terms

WINDOWS = [window.name for window in SHAPE.windows]


@pytest.fixture(scope="module")
def oracle(built: Warehouse) -> Oracle:
    return Oracle(built.data)


def variants(metric: str) -> Iterator[dict[str, str]]:
    """The metric's rows in variants/*.csv."""
    with (PROJECT / "variants" / f"{metric}.csv").open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


def number(text: str | None, otherwise: float) -> float:
    return float(text) if text else otherwise


def assert_agrees(
    found: dict[tuple[str, str], float | None], expected: dict[tuple[str, str], float | None]
) -> None:
    """Same variants and models, same values to 1e-9 relative."""
    assert expected
    assert set(found) == set(expected)
    for key, value in expected.items():
        got = found[key]
        assert (got is None) == (value is None), (key, got, value)
        if value is not None:
            assert got == pytest.approx(value, rel=1e-9, abs=1e-12), key


@pytest.mark.parametrize("metric", ["perplexity", "tail_nll", "position_nll"])
def test_likelihood_over_a_region(built: Warehouse, oracle: Oracle, metric: str) -> None:
    expected: dict[tuple[str, str], float | None] = {}
    for variant in variants(metric):
        unit = variant["unit"]
        for model in oracle.models:
            tops: list[float] = []
            bottoms: list[float] = []
            for doc, scored in oracle.documents(model, "full").items():
                where = scored.position
                keep = (
                    (where >= number(variant.get("from_position"), 0))
                    & (where < number(variant.get("to_position"), math.inf))
                    & (scored.length - where <= number(variant.get("tail_tokens"), math.inf))
                    & (where >= number(variant.get("from_share"), 0) * scored.length)
                    & (where < number(variant.get("to_share"), 1) * scored.length)
                )
                if keep.any():
                    bits = math.log(2) if unit == "byte" else 1.0
                    tops.append(float(scored.nll[keep].sum()) / bits)
                    bottoms.append(
                        oracle.bytes_of(doc, scored, keep) if unit == "byte" else keep.sum()
                    )
            if tops:
                value = combine(variant["aggregation"], tops, bottoms)
                as_exp = metric == "perplexity" and unit == "token"
                expected[variant["variant"], model] = math.exp(value) if as_exp else value
    assert_agrees(built.values(metric), expected)


def test_nll_slope(built: Warehouse, oracle: Oracle) -> None:
    expected: dict[tuple[str, str], float | None] = {}
    for variant in variants("nll_slope"):
        for model in oracle.models:
            tops, bottoms = [], []
            for scored in oracle.documents(model, "full").values():
                keep = scored.position >= number(variant["from_position"], 0)
                if keep.sum() > 2:
                    x = np.log2(scored.position[keep] + 1.0)
                    y = scored.nll[keep]
                    tops.append(float(((x - x.mean()) * (y - y.mean())).sum()))
                    bottoms.append(float(((x - x.mean()) ** 2).sum()))
            if tops:
                expected[variant["variant"], model] = combine(variant["aggregation"], tops, bottoms)
    assert_agrees(built.values("nll_slope"), expected)


def test_context_gain(built: Warehouse, oracle: Oracle) -> None:
    expected: dict[tuple[str, str], float | None] = {}
    for variant in variants("context_gain"):
        for model in oracle.models:
            for window in WINDOWS:
                tops, bottoms = [], []
                for pairs in oracle.pairs(model, window).values():
                    share = variant["statistic"] == "share_positive"
                    relative = variant["statistic"] == "relative"
                    tops.append(float((pairs.gain > 0).sum() if share else pairs.gain.sum()))
                    bottoms.append(float(pairs.short.nll.sum() if relative else len(pairs.gain)))
                expected[f"{variant['variant']}@{window}", model] = combine(
                    variant["aggregation"], tops, bottoms
                )
    assert_agrees(built.values("context_gain"), expected)


def test_longppl(built: Warehouse, oracle: Oracle) -> None:
    expected: dict[tuple[str, str], float | None] = {}
    for variant in variants("longppl"):
        for model in oracle.models:
            for window in WINDOWS:
                terms = [
                    (
                        *longppl_terms(pairs, float(variant["alpha"]), float(variant["beta"])),
                        pairs.full.length,
                    )
                    for pairs in oracle.pairs(model, window).values()
                ]
                key = f"{variant['variant']}@{window}", model
                tops, bottoms, lengths = (list(column) for column in zip(*terms, strict=True))
                if sum(bottoms) < int(variant["min_tokens"]):
                    expected[key] = None
                else:
                    expected[key] = math.exp(
                        combine(variant["aggregation"], tops, bottoms, lengths)
                    )
    found = built.values("longppl")
    assert_agrees(found, expected)
    assert any(value is None for value in found.values()), "the minimum count is never tested"


def test_longppl_soft(built: Warehouse, oracle: Oracle) -> None:
    expected: dict[tuple[str, str], float | None] = {}
    for variant in variants("longppl_soft"):
        for model in oracle.models:
            for window in WINDOWS:
                tops, bottoms, lengths = [], [], []
                for pairs in oracle.pairs(model, window).values():
                    weight = np.minimum(np.exp(pairs.gain), float(variant["gamma"]))
                    tops.append(float((weight * pairs.nll).sum()))
                    bottoms.append(float(weight.sum()))
                    lengths.append(float(pairs.full.length))
                expected[f"{variant['variant']}@{window}", model] = math.exp(
                    combine(variant["aggregation"], tops, bottoms, lengths)
                )
    assert_agrees(built.values("longppl_soft"), expected)


def test_retrieval_gain(built: Warehouse, oracle: Oracle) -> None:
    expected: dict[tuple[str, str], float | None] = {}
    for variant in variants("retrieval_gain"):
        statistic, aggregation = variant["statistic"], variant["aggregation"]
        for model in oracle.models:
            after = oracle.documents(model, "retrieval_with")
            alone = oracle.documents(model, "retrieval_without")
            tops: list[float] = []
            bottoms: list[float] = []
            for doc in after:
                gains, bases = [], []
                for segment in np.unique(after[doc].segment):
                    there = after[doc].segment == segment
                    nll_alone = float(alone[doc].nll[there].mean())
                    gain = nll_alone - float(after[doc].nll[there].mean())
                    gains.append(float(gain > 0) if statistic == "share_positive" else gain)
                    bases.append(nll_alone if statistic == "relative" else 1.0)
                if aggregation in ("micro", "macro"):
                    tops.append(sum(gains))
                    bottoms.append(sum(bases))
                else:
                    tops.extend(gains)
                    bottoms.extend(bases)
            expected[f"{variant['variant']}@retrieval", model] = combine(aggregation, tops, bottoms)
    assert_agrees(built.values("retrieval_gain"), expected)
