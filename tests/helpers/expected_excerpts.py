"""Families over chosen tokens, LongPPL's and retrieval's: expected values, plainly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from metric_oracle import (
    Oracle,
    Pairs,
    Scored,
    Values,
    Variant,
    combine,
    inside_terms,
    key_intervals,
    number,
)
from numpy.typing import NDArray


def exp_over_documents(variant: Variant, terms: list[tuple[float, float, float]]) -> float | None:
    """From (numerator, denominator, weight) of each document, in logs; null with few tokens."""
    tops, bottoms, weights = (list(column) for column in zip(*terms, strict=True))
    if sum(bottoms) < number(variant.get("min_tokens"), 1):
        return None
    return math.exp(combine(variant["aggregation"], tops, bottoms, weights))


def key_terms(scored: Scored, evaluator: Pairs, variant: Variant) -> tuple[float, float, float]:
    """NLL and number of a document's tokens inside the evaluator's key characters, its length."""
    alpha, beta = float(variant["alpha"]), float(variant["beta"])
    return (*inside_terms(scored, key_intervals(evaluator, alpha, beta)), float(scored.length))


def longppl(oracle: Oracle) -> Values:
    return {
        (f"{variant['variant']}@{window}", model): exp_over_documents(
            variant,
            [key_terms(pairs.full, pairs, variant) for pairs in documents.values()],
        )
        for variant in oracle.variants("longppl")
        for model in oracle.models
        for window in oracle.windows
        if (documents := oracle.pairs(model, window))
    }


def longppl_external(oracle: Oracle) -> Values:
    values: Values = {}
    for variant in oracle.variants("longppl_external"):
        named = variant["evaluator"]
        evaluator = oracle.largest if named == "largest" else named
        for model in oracle.models if evaluator in oracle.models else ():
            for window in oracle.windows:
                full = oracle.documents(model, "full")
                evaluations = oracle.pairs(evaluator, window).items()
                terms = [
                    key_terms(full[doc], pairs, variant)
                    for doc, pairs in evaluations
                    if doc in full
                ]
                values[f"{variant['variant']}@{window}", model] = exp_over_documents(variant, terms)
    return values


def longppl_soft(oracle: Oracle) -> Values:
    values: Values = {}
    for variant in oracle.variants("longppl_soft"):
        for model in oracle.models:
            for window in oracle.windows:
                terms = []
                for pairs in oracle.pairs(model, window).values():
                    weight = np.minimum(np.exp(pairs.gain), float(variant["gamma"]))
                    top, bottom = float((weight * pairs.nll).sum()), float(weight.sum())
                    terms.append((top, bottom, float(pairs.full.length)))
                values[f"{variant['variant']}@{window}", model] = exp_over_documents(variant, terms)
    return values


def excerpt_scores(after: Scored, alone: Scored, variant: Variant) -> Iterator[tuple[float, float]]:
    """Score and base of each excerpt of a document in the variant's band."""
    for segment in np.unique(after.segment):
        there = after.segment == segment
        first, length = int(after.position[there].min()), after.length
        early, late = number(variant["from_share"], 0), number(variant["to_share"], 1)
        near = number(variant["from_distance"], 0)
        far = number(variant["to_distance"], math.inf)
        if not (early * length <= first < late * length and near <= length - first < far):
            continue
        assert (after.position[there] == alone.position[alone.segment == segment]).all()
        nll_alone = float(alone.nll[alone.segment == segment].mean())
        gain = nll_alone - float(after.nll[there].mean())
        right = (after.rank[there] == 1).mean() - (alone.rank[alone.segment == segment] == 1).mean()
        score = {"share_positive": float(gain > 0), "accuracy": float(right)}
        base = nll_alone if variant["statistic"] == "relative" else 1.0
        yield score.get(variant["statistic"], gain), base


def retrieval_gain(oracle: Oracle) -> Values:
    values: Values = {}
    for variant in oracle.variants("retrieval_gain"):
        for model in oracle.models:
            after = oracle.documents(model, "retrieval_with")
            alone = oracle.documents(model, "retrieval_without")
            scores = [list(excerpt_scores(after[d], alone[d], variant)) for d in after]
            terms = [(sum(s for s, _ in doc), sum(b for _, b in doc)) for doc in scores]
            tops, bottoms = [top for top, _ in terms], [bottom for _, bottom in terms]
            if any(bottoms):
                values[f"{variant['variant']}@retrieval", model] = combine(
                    variant["aggregation"], tops, bottoms
                )
    return values


def prefix(ranks: NDArray[np.int32]) -> int:
    """How many tokens are right before the first that isn't."""
    wrong = np.flatnonzero(ranks != 1)
    return int(wrong[0]) if len(wrong) else len(ranks)


def recalls(after: Scored, alone: Scored, statistic: str) -> tuple[list[float], list[float]]:
    """Recall of each excerpt of a document, and its position."""
    recall, depth = [], []
    for segment in np.unique(after.segment):
        ranks = after.rank[after.segment == segment]
        ranks_alone = alone.rank[alone.segment == segment]
        right = prefix(ranks)
        recall.append(
            {
                "first_token": float(ranks[0] == 1),
                "exact_match": float((ranks == 1).all()),
                "prefix": float(right),
                "prefix_gain": float(right - prefix(ranks_alone)),
            }.get(statistic, float((ranks == 1).mean()))
        )
        depth.append(float(after.position[after.segment == segment].min() / after.length))
    return recall, depth


def recall_terms(after: Scored, alone: Scored, statistic: str) -> tuple[float, float]:
    recall, depth = recalls(after, alone, statistic)
    if statistic == "worst_depth":
        return min(recall), 1.0
    if statistic == "depth_slope":
        x, y = np.array(depth) - np.mean(depth), np.array(recall) - np.mean(recall)
        return float(x @ y), float(x @ x)
    return sum(recall), float(len(recall))


def retrieval_recall(oracle: Oracle) -> Values:
    values: Values = {}
    for variant in oracle.variants("retrieval_recall"):
        for model in oracle.models:
            after = oracle.documents(model, "retrieval_with")
            alone = oracle.documents(model, "retrieval_without")
            terms = [recall_terms(after[d], alone[d], variant["statistic"]) for d in after]
            if terms:
                tops, bottoms = (list(column) for column in zip(*terms, strict=True))
                values[f"{variant['variant']}@retrieval", model] = combine(
                    variant["aggregation"], tops, bottoms
                )
    return values


EXPECTED: dict[str, Callable[[Oracle], Values]] = {
    "longppl": longppl,
    "longppl_external": longppl_external,
    "longppl_soft": longppl_soft,
    "retrieval_gain": retrieval_gain,
    "retrieval_recall": retrieval_recall,
}
