"""Families over chosen tokens, LongPPL's and retrieval's: expected values, plainly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from metric_oracle import Groups, Oracle, Pairs, Scored, Terms, Values, Variant, family, number
from numpy.typing import NDArray

Excerpts = tuple[Scored, Scored]
"""A document's answers after the whole document, and after the excerpts alone."""


def by_window(oracle: Oracle, model: str) -> Groups[Pairs]:
    return {f"@{window}": oracle.pairs(model, window).values() for window in oracle.windows}


def key_terms(oracle: Oracle, pairs: Pairs, variant: Variant) -> Terms:
    return inside_keys(pairs.full, pairs, variant)


def inside_keys(scored: Scored, evaluator: Pairs, variant: Variant) -> Terms:
    """NLL and number of the tokens wholly inside the evaluator's key characters, and the weight.

    Key tokens that touch are one interval of characters.
    """
    key = evaluator.gain > float(variant["alpha"])
    key &= evaluator.nll < -float(variant["beta"])
    intervals: list[tuple[int, int]] = []
    for row in np.flatnonzero(key):
        start, end = (int(evaluator.short.columns[n][row]) for n in ("char_start", "char_end"))
        if intervals and intervals[-1][1] == start:
            start = intervals.pop()[0]
        intervals.append((start, end))
    inside = np.zeros(len(scored.position), dtype=bool)
    for start, end in intervals:
        inside |= (scored.char_start >= start) & (scored.char_end <= end)
    return float(scored.nll[inside].sum()), int(inside.sum()), float(scored.length)


def documents_by_window(oracle: Oracle, model: str) -> Groups[tuple[str, int, Scored]]:
    full = oracle.documents(model, "full")
    return {f"@{window}": [(window, *each) for each in full.items()] for window in oracle.windows}


def external_terms(
    oracle: Oracle, document: tuple[str, int, Scored], variant: Variant
) -> Terms | None:
    window, doc, scored = document
    named = variant["evaluator"]
    evaluator = oracle.largest if named == "largest" else named
    pairs = oracle.pairs(evaluator, window).get(doc) if evaluator in oracle.models else None
    return None if pairs is None else inside_keys(scored, pairs, variant)


def soft_terms(oracle: Oracle, pairs: Pairs, variant: Variant) -> Terms:
    weight = np.minimum(np.exp(pairs.gain), float(variant["gamma"]))
    return float((weight * pairs.nll).sum()), float(weight.sum()), float(pairs.full.length)


def excerpts(oracle: Oracle, model: str) -> Groups[Excerpts]:
    after, alone = (oracle.documents(model, f"retrieval_{s}") for s in ("with", "without"))
    return {"@retrieval": [(scored, alone[doc]) for doc, scored in after.items()]}


def each_excerpt(document: Excerpts) -> Iterator[Excerpts]:
    for segment in np.unique(document[0].segment):
        after, alone = (side.where(side.segment == segment) for side in document)
        assert (after.position == alone.position).all()
        yield after, alone


def gain_terms(oracle: Oracle, document: Excerpts, variant: Variant) -> Terms | None:
    """Scores and bases of the excerpts in the variant's band."""
    early, late = number(variant["from_share"], 0), number(variant["to_share"], 1)
    near, far = number(variant["from_distance"], 0), number(variant["to_distance"], math.inf)
    top = bottom = 0.0
    for after, alone in each_excerpt(document):
        first, length = int(after.position.min()), after.length
        if not (early * length <= first < late * length and near <= length - first < far):
            continue
        gain = float(alone.nll.mean() - after.nll.mean())
        right = float((after.rank == 1).mean() - (alone.rank == 1).mean())
        score = {"share_positive": float(gain > 0), "accuracy": right}
        top += score.get(variant["statistic"], gain)
        bottom += float(alone.nll.mean()) if variant["statistic"] == "relative" else 1.0
    return (top, bottom) if bottom else None


def prefix(ranks: NDArray[np.int32]) -> int:
    """How many tokens are right before the first that isn't."""
    wrong = np.flatnonzero(ranks != 1)
    return int(wrong[0]) if len(wrong) else len(ranks)


def recall_terms(oracle: Oracle, document: Excerpts, variant: Variant) -> Terms:
    recall, depth = [], []
    for after, alone in each_excerpt(document):
        right = prefix(after.rank)
        statistics = {
            "first_token": float(after.rank[0] == 1),
            "exact_match": float((after.rank == 1).all()),
            "prefix": float(right),
            "prefix_gain": float(right - prefix(alone.rank)),
        }
        recall.append(statistics.get(variant["statistic"], float((after.rank == 1).mean())))
        depth.append(float(after.position.min() / after.length))
    if variant["statistic"] == "worst_depth":
        return min(recall), 1.0
    if variant["statistic"] == "depth_slope":
        x, y = np.array(depth) - np.mean(depth), np.array(recall) - np.mean(recall)
        return float(x @ y), float(x @ x)
    return sum(recall), float(len(recall))


EXPECTED: dict[str, Callable[[Oracle], Values]] = {
    "longppl": family("longppl", by_window, key_terms, exponentiate=True),
    "longppl_external": family(
        "longppl_external", documents_by_window, external_terms, exponentiate=True
    ),
    "longppl_soft": family("longppl_soft", by_window, soft_terms, exponentiate=True),
    "retrieval_gain": family("retrieval_gain", excerpts, gain_terms),
    "retrieval_recall": family("retrieval_recall", excerpts, recall_terms),
}
