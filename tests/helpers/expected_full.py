"""Families over the whole document as context: expected values from the formulas in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
from metric_oracle import (
    Oracle,
    Scored,
    Terms,
    Values,
    Variant,
    family,
    in_rare_words,
    rank_scores,
    region,
    repeats,
)
from numpy.typing import NDArray


def whole(oracle: Oracle, model: str) -> dict[str, Iterable[Scored]]:
    """A model's documents, scored in one context: nothing to add to a variant's name."""
    return {"": oracle.documents(model, "full").values()}


def perplexity(oracle: Oracle) -> Values:
    """NLL per token is exponentiated, bits per byte are not."""
    per_token = {v["variant"] for v in oracle.variants("perplexity") if v["unit"] == "token"}
    return {
        (variant, model): math.exp(value) if variant in per_token and value is not None else value
        for (variant, model), value in family("perplexity", whole, likelihood)(oracle).items()
    }


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
        "nll_minus_entropy": scored.nll - own,
        "first_choice_nll": -scored.top_logprob.astype(np.float64),
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


EXPECTED: dict[str, Callable[[Oracle], Values]] = {"perplexity": perplexity} | {
    metric: family(metric, whole, terms)
    for metric, terms in {
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
