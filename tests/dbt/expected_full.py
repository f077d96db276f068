"""Families over the whole document as context: expected values from the formulas in words."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from metric_oracle import (
    Oracle,
    Scored,
    Terms,
    Values,
    Variant,
    combine,
    in_rare_words,
    rank_scores,
    region,
    repeats,
)
from numpy.typing import NDArray

DocumentTerms = Callable[[Oracle, Scored, Variant], Terms | None]


def family(metric: str, terms: DocumentTerms) -> Callable[[Oracle], Values]:
    """The metric's values, from its numerator and denominator per document."""

    def expected(oracle: Oracle) -> Values:
        values: Values = {}
        for variant in oracle.variants(metric):
            for model in oracle.models:
                documents = oracle.documents(model, "full").values()
                kept = [t for s in documents if (t := terms(oracle, s, variant)) is not None]
                if kept:
                    tops, bottoms = (list(column) for column in zip(*kept, strict=True))
                    value = combine(variant["aggregation"], tops, bottoms)
                    as_exp = metric == "perplexity" and variant["unit"] == "token"
                    values[variant["variant"], model] = math.exp(value) if as_exp else value
        return values

    return expected


def mean(values: NDArray[np.float64], keep: NDArray[np.bool_]) -> Terms | None:
    """Sum and number of the values to keep."""
    return (float(values[keep].sum()), float(keep.sum())) if keep.any() else None


def likelihood(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    keep = region(scored.position, scored.length, variant)
    if variant["unit"] == "token" or not keep.any():
        return mean(scored.nll, keep)
    bits = float(scored.nll[keep].sum()) / math.log(2)
    return bits, float(oracle.bytes_of(int(scored.doc_id[0]), scored, keep))


def slope(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    keep = region(scored.position, scored.length, variant)
    if keep.sum() <= 2:
        return None
    x, y = np.log2(scored.position[keep] + 1.0), scored.nll[keep]
    x, y = x - x.mean(), y - y.mean()
    return float(x @ y), float(x @ x)


def curvature(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    keep = region(scored.position, scored.length, variant)
    if keep.sum() <= 3:
        return None
    # Frisch-Waugh: regress x² on (1, x); the residual's slope is the coefficient. The shift of
    # x changes no coefficient of x², and keeps the fit well conditioned.
    x = np.log2(scored.position[keep] + 1.0) - 10
    design = np.column_stack([np.ones_like(x), x])
    residual = x**2 - design @ np.linalg.lstsq(design, x**2, rcond=None)[0]
    return float(residual @ scored.nll[keep]), float(residual @ residual)


def rank(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    keep = region(scored.position, scored.length, variant)
    return mean(rank_scores(scored.rank, variant["statistic"]), keep)


def entropy(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    own = scored.entropy.astype(np.float64)
    values = {
        "entropy": own,
        "surprise_excess": scored.nll - own,
        "doubt": -scored.top_logprob.astype(np.float64),
    }
    keep = region(scored.position, scored.length, variant)
    return mean(values[variant["statistic"]], keep)


def calibration(oracle: Oracle, scored: Scored, variant: Variant) -> Terms:
    confidence = np.exp(scored.top_logprob.astype(np.float64))
    right = scored.rank == 1
    bins = np.minimum(np.floor(confidence * int(variant["bins"])), int(variant["bins"]) - 1)
    error = sum(abs(confidence[bins == b].sum() - right[bins == b].sum()) for b in np.unique(bins))
    return float(error), float(len(confidence))


def rare_word_nll(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    return mean(scored.nll, in_rare_words(oracle, scored, variant))


def induction_nll(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    return mean(scored.nll, repeats(oracle, scored, variant))


def induction_advantage(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    keep = repeats(oracle, scored, variant)
    first = np.isinf(oracle.distances(scored, int(variant["ngram"])))
    return (float(scored.nll[first].mean() - scored.nll[keep].mean()), 1.0) if keep.any() else None


def confident_mistakes(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    sure = np.exp(scored.top_logprob.astype(np.float64)) > 0.9
    return mean((scored.rank > 1).astype(np.float64), sure)


EXPECTED: dict[str, Callable[[Oracle], Values]] = {
    metric: family(metric, terms)
    for metric, terms in {
        "perplexity": likelihood,
        "tail_nll": likelihood,
        "position_nll": likelihood,
        "nll_slope": slope,
        "nll_curvature": curvature,
        "rank": rank,
        "entropy": entropy,
        "calibration_error": calibration,
        "rare_word_nll": rare_word_nll,
        "induction_nll": induction_nll,
        "induction_advantage": induction_advantage,
        "confident_mistakes": confident_mistakes,
    }.items()
}
