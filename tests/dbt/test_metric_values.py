"""Every family's values against the plain numpy implementations of `metric_oracle.py`."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import scipy.stats
from dbt_harness import PROJECT, SHAPE, Warehouse
from metric_oracle import (
    Oracle,
    Pairs,
    Scored,
    combine,
    inside_terms,
    key_intervals,
)
from numpy.typing import NDArray

WINDOWS = [window.name for window in SHAPE.windows]


@pytest.fixture(scope="module")
def oracle(built: Warehouse) -> Oracle:
    return Oracle(built.data)


def variants(metric: str) -> Iterator[dict[str, str]]:
    """The metric's rows in variants/*.csv."""
    with (PROJECT / "variants" / f"{metric}.csv").open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


def region(position: NDArray[np.int64], length: int, variant: dict[str, str]) -> NDArray[np.bool_]:
    """Tokens in the variant's band of positions."""
    return np.asarray(
        (position >= number(variant.get("from_position"), 0))
        & (position < number(variant.get("to_position"), math.inf))
        & (length - position <= number(variant.get("tail_tokens"), math.inf))
        & (position >= number(variant.get("from_share"), 0) * length)
        & (position < number(variant.get("to_share"), 1) * length)
    )


def rank_scores(rank: NDArray[np.int32], statistic: str) -> NDArray[np.float64]:
    """1 or 0 per token for top-k, 1 / rank for the reciprocal rank."""
    if statistic == "reciprocal_rank":
        return np.asarray(1 / rank)
    return (rank <= int(statistic.removeprefix("top_"))).astype(np.float64)


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
                keep = region(scored.position, scored.length, variant)
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


def gain_terms(pairs: Pairs, variant: dict[str, str]) -> tuple[float, float]:
    """Numerator and denominator of one document, for a row of context_gain.csv."""
    gain, number_of_tokens = pairs.gain, float(len(pairs.gain))
    match variant["statistic"]:
        case "mean":
            return float(gain.sum()), number_of_tokens
        case "relative":
            return float(gain.sum()), float(pairs.short.nll.sum())
        case "share_positive":
            return float((gain > 0).sum()), number_of_tokens
        case "share_above":
            return float((gain > float(variant["alpha"])).sum()), number_of_tokens
        case "clipped":
            limit = float(variant["clip"])
            return float(np.clip(gain, -limit, limit).sum()), number_of_tokens
    raise AssertionError(variant)


def over_pairs(
    oracle: Oracle,
    metric: str,
    terms: Callable[[Pairs, dict[str, str]], tuple[float, float] | None],
) -> dict[tuple[str, str], float | None]:
    """Expected values of a family that needs a window, from its term per document."""
    expected: dict[tuple[str, str], float | None] = {}
    for variant in variants(metric):
        for model in oracle.models:
            for window in WINDOWS:
                found = [terms(pairs, variant) for pairs in oracle.pairs(model, window).values()]
                kept = [term for term in found if term is not None]
                if kept:
                    tops, bottoms = (list(column) for column in zip(*kept, strict=True))
                    expected[f"{variant['variant']}@{window}", model] = (
                        combine(variant["aggregation"], tops, bottoms) if any(bottoms) else None
                    )
    return expected


def over_full(
    oracle: Oracle,
    metric: str,
    terms: Callable[[Scored, dict[str, str]], tuple[float, float] | None],
) -> dict[tuple[str, str], float | None]:
    """Expected values of a family over the full context, from its term per document."""
    expected: dict[tuple[str, str], float | None] = {}
    for variant in variants(metric):
        for model in oracle.models:
            found = [terms(scored, variant) for scored in oracle.documents(model, "full").values()]
            kept = [term for term in found if term is not None]
            if kept:
                tops, bottoms = (list(column) for column in zip(*kept, strict=True))
                expected[variant["variant"], model] = combine(variant["aggregation"], tops, bottoms)
    return expected


def test_context_gain(built: Warehouse, oracle: Oracle) -> None:
    assert_agrees(built.values("context_gain"), over_pairs(oracle, "context_gain", gain_terms))


def test_position_gain(built: Warehouse, oracle: Oracle) -> None:
    def terms(pairs: Pairs, variant: dict[str, str]) -> tuple[float, float] | None:
        keep = region(pairs.short.position, pairs.full.length, variant)
        return (float(pairs.gain[keep].sum()), float(keep.sum())) if keep.any() else None

    assert_agrees(built.values("position_gain"), over_pairs(oracle, "position_gain", terms))


def test_gain_quantile(built: Warehouse, oracle: Oracle) -> None:
    def terms(pairs: Pairs, variant: dict[str, str]) -> tuple[float, float]:
        if variant["quantile"]:
            return float(np.quantile(pairs.gain, float(variant["quantile"]))), 1.0
        return float(scipy.stats.trim_mean(pairs.gain, float(variant["trim"]))), 1.0

    assert_agrees(built.values("gain_quantile"), over_pairs(oracle, "gain_quantile", terms))


def test_key_share(built: Warehouse, oracle: Oracle) -> None:
    def terms(pairs: Pairs, variant: dict[str, str]) -> tuple[float, float]:
        key = (pairs.gain > float(variant["alpha"])) & (pairs.nll < -float(variant["beta"]))
        match variant["statistic"]:
            case "share":
                return float(key.sum()), float(len(key))
            case "density":
                characters = (pairs.short.char_end - pairs.short.char_start).sum()
                return float(key.sum()), float(characters) / 1000
        return float(pairs.gain[key].sum()), float(key.sum())

    assert_agrees(built.values("key_share"), over_pairs(oracle, "key_share", terms))


def test_rank(built: Warehouse, oracle: Oracle) -> None:
    def terms(scored: Scored, variant: dict[str, str]) -> tuple[float, float] | None:
        keep = region(scored.position, scored.length, variant)
        hits = rank_scores(scored.rank[keep], variant["statistic"])
        return (float(hits.sum()), float(keep.sum())) if keep.any() else None

    assert_agrees(built.values("rank"), over_full(oracle, "rank", terms))


def test_rank_gain(built: Warehouse, oracle: Oracle) -> None:
    def terms(pairs: Pairs, variant: dict[str, str]) -> tuple[float, float]:
        long = rank_scores(pairs.full.rank[pairs.at], variant["statistic"])
        short = rank_scores(pairs.short.rank, variant["statistic"])
        return float(long.sum() - short.sum()), float(len(long))

    assert_agrees(built.values("rank_gain"), over_pairs(oracle, "rank_gain", terms))


def test_entropy(built: Warehouse, oracle: Oracle) -> None:
    def terms(scored: Scored, variant: dict[str, str]) -> tuple[float, float]:
        keep = region(scored.position, scored.length, variant)
        entropy = scored.entropy[keep].astype(np.float64)
        value = {
            "entropy": entropy,
            "surprise_excess": scored.nll[keep] - entropy,
            "doubt": -scored.top_logprob[keep].astype(np.float64),
        }[variant["statistic"]]
        return float(value.sum()), float(keep.sum())

    assert_agrees(built.values("entropy"), over_full(oracle, "entropy", terms))


def test_entropy_drop(built: Warehouse, oracle: Oracle) -> None:
    def terms(pairs: Pairs, variant: dict[str, str]) -> tuple[float, float]:
        long = pairs.full.entropy[pairs.at].astype(np.float64).sum()
        short = pairs.short.entropy.astype(np.float64).sum()
        relative = variant["statistic"] == "relative"
        return float(short - long), float(short if relative else len(pairs.gain))

    assert_agrees(built.values("entropy_drop"), over_pairs(oracle, "entropy_drop", terms))


def test_calibration_error(built: Warehouse, oracle: Oracle) -> None:
    def terms(scored: Scored, variant: dict[str, str]) -> tuple[float, float]:
        confidence = np.exp(scored.top_logprob.astype(np.float64))
        bins = np.minimum(np.floor(confidence * int(variant["bins"])), int(variant["bins"]) - 1)
        error = sum(
            abs(confidence[bins == b].sum() - (scored.rank[bins == b] == 1).sum())
            for b in np.unique(bins)
        )
        return float(error), float(len(confidence))

    assert_agrees(built.values("calibration_error"), over_full(oracle, "calibration_error", terms))


def test_nll_curvature(built: Warehouse, oracle: Oracle) -> None:
    def terms(scored: Scored, variant: dict[str, str]) -> tuple[float, float] | None:
        keep = scored.position >= float(variant["from_position"])
        if keep.sum() <= 3:
            return None
        # Frisch-Waugh: regress x² on (1, x); the residual's slope is the coefficient.
        x = np.log2(scored.position[keep] + 1.0) - 10
        design = np.column_stack([np.ones_like(x), x])
        residual = x**2 - design @ np.linalg.lstsq(design, x**2, rcond=None)[0]
        return float(residual @ scored.nll[keep]), float(residual @ residual)

    expected = over_full(oracle, "nll_curvature", terms)
    assert_agrees(built.values("nll_curvature"), expected)


@pytest.mark.parametrize("metric", ["rare_word_nll", "rare_word_gain"])
def test_rare_words(built: Warehouse, oracle: Oracle, metric: str) -> None:
    frequency, is_number = oracle.words

    def chosen(doc: int, scored: Scored, variant: dict[str, str]) -> NDArray[np.bool_]:
        last = scored.char_end - 1
        numbers = is_number[doc][last]
        if variant["word_kind"] == "number":
            return numbers
        times = frequency[doc][last]
        return ~numbers & (times > 0) & (times <= int(variant["max_frequency"]))

    def full(scored: Scored, variant: dict[str, str]) -> tuple[float, float] | None:
        keep = chosen(int(scored.doc_id[0]), scored, variant)
        return (float(scored.nll[keep].sum()), float(keep.sum())) if keep.any() else None

    def pairs(pairs: Pairs, variant: dict[str, str]) -> tuple[float, float] | None:
        keep = chosen(int(pairs.short.doc_id[0]), pairs.short, variant)
        return (float(pairs.gain[keep].sum()), float(keep.sum())) if keep.any() else None

    expected = (
        over_full(oracle, metric, full)
        if metric == "rare_word_nll"
        else over_pairs(oracle, metric, pairs)
    )
    assert_agrees(built.values(metric), expected)


@pytest.mark.parametrize("metric", ["induction_nll", "induction_advantage", "induction_gain"])
def test_induction(built: Warehouse, oracle: Oracle, metric: str) -> None:
    def repeats(scored: Scored, variant: dict[str, str]) -> NDArray[np.bool_]:
        distance = oracle.distances(scored, int(variant["ngram"]))
        low = number(variant["from_distance"], 0)
        return (distance >= low) & (distance < number(variant["to_distance"], math.inf))

    def full(scored: Scored, variant: dict[str, str]) -> tuple[float, float] | None:
        keep = repeats(scored, variant)
        if not keep.any():
            return None
        if metric == "induction_nll":
            return float(scored.nll[keep].sum()), float(keep.sum())
        first = np.isinf(oracle.distances(scored, int(variant["ngram"])))
        return float(scored.nll[first].mean() - scored.nll[keep].mean()), 1.0

    def pairs(pairs: Pairs, variant: dict[str, str]) -> tuple[float, float] | None:
        keep = repeats(pairs.full, variant)[pairs.at]
        return (float(pairs.gain[keep].sum()), float(keep.sum())) if keep.any() else None

    expected = (
        over_pairs(oracle, metric, pairs)
        if metric == "induction_gain"
        else over_full(oracle, metric, full)
    )
    assert_agrees(built.values(metric), expected)


def test_longppl_with_an_external_evaluator(built: Warehouse, oracle: Oracle) -> None:
    """The evaluator, the largest model, has another tokenizer than half of the models."""
    evaluator = oracle.models[-1]
    expected: dict[tuple[str, str], float | None] = {}
    for variant in variants("longppl_external"):
        alpha, beta = float(variant["alpha"]), float(variant["beta"])
        for model in oracle.models:
            full = oracle.documents(model, "full")
            for window in WINDOWS:
                terms = [
                    (*inside_terms(full[doc], key_intervals(pairs, alpha, beta)), full[doc].length)
                    for doc, pairs in oracle.pairs(evaluator, window).items()
                ]
                tops, bottoms, lengths = (list(column) for column in zip(*terms, strict=True))
                expected[f"{variant['variant']}@{window}", model] = (
                    math.exp(combine(variant["aggregation"], tops, bottoms, lengths))
                    if sum(bottoms) >= int(variant["min_tokens"])
                    else None
                )
    assert_agrees(built.values("longppl_external"), expected)


def test_longppl(built: Warehouse, oracle: Oracle) -> None:
    expected: dict[tuple[str, str], float | None] = {}
    for variant in variants("longppl"):
        alpha, beta = float(variant["alpha"]), float(variant["beta"])
        for model in oracle.models:
            for window in WINDOWS:
                terms = [
                    (
                        *inside_terms(pairs.full, key_intervals(pairs, alpha, beta)),
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
                    first = int(after[doc].position[there].min())
                    length = after[doc].length
                    if not (
                        number(variant["from_share"], 0) * length
                        <= first
                        < number(variant["to_share"], 1) * length
                        and number(variant["from_distance"], 0)
                        <= length - first
                        < number(variant["to_distance"], math.inf)
                    ):
                        continue
                    nll_alone = float(alone[doc].nll[there].mean())
                    gain = nll_alone - float(after[doc].nll[there].mean())
                    if statistic == "accuracy":
                        right = (after[doc].rank[there] == 1).mean()
                        gain = float(right - (alone[doc].rank[there] == 1).mean())
                    gains.append(float(gain > 0) if statistic == "share_positive" else gain)
                    bases.append(nll_alone if statistic == "relative" else 1.0)
                if aggregation in ("micro", "macro"):
                    tops.append(sum(gains))
                    bottoms.append(sum(bases))
                else:
                    tops.extend(gains)
                    bottoms.extend(bases)
            if any(bottoms):
                expected[f"{variant['variant']}@retrieval", model] = combine(
                    aggregation, tops, bottoms
                )
    assert_agrees(built.values("retrieval_gain"), expected)
