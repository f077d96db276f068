"""Families over the whole document as context: expected values from the formulas in words."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from metric_oracle import (
    Groups,
    Oracle,
    Scored,
    Terms,
    Values,
    Variant,
    family,
    in_words,
    number,
    rank_scores,
    region,
    repeats,
)
from numpy.typing import NDArray


def whole(oracle: Oracle, model: str) -> Groups[Scored]:
    """A model's documents, scored in one context: nothing to add to a variant's name."""
    return {"": oracle.documents(model, "full").values()}


def part(oracle: Oracle, scored: Scored, variant: Variant) -> NDArray[np.bool_]:
    """Tokens of the variant's part of a document, none if they are too few."""
    keep = region(oracle, scored, scored.length, variant)
    return keep & (keep.sum() >= number(variant.get("min_document_tokens"), 1))


def mean(values: NDArray[np.float64], keep: NDArray[np.bool_]) -> Terms | None:
    """Sum and number of the values to keep."""
    return (float(values[keep].sum()), float(keep.sum())) if keep.any() else None


def likelihood(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    keep = part(oracle, scored, variant)
    if variant.get("unit") != "byte" or not keep.any():
        return mean(scored.nll, keep)
    bits = float(scored.nll[keep].sum()) / math.log(2)
    return bits, float(oracle.bytes_of(int(scored.doc_id[0]), scored, keep))


def slope(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    keep = part(oracle, scored, variant)
    if not keep.any():
        return None
    x, y = np.log2(scored.position[keep] + 1.0), scored.nll[keep]
    x, y = x - x.mean(), y - y.mean()
    return float(x @ y), float(x @ x)


def curvature(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    keep = part(oracle, scored, variant)
    if not keep.any():
        return None
    # Frisch-Waugh: regress x² on (1, x); the residual's slope is the coefficient. The shift of
    # x changes no coefficient of x², and keeps the fit well conditioned.
    x = np.log2(scored.position[keep] + 1.0) - 10
    design = np.column_stack([np.ones_like(x), x])
    residual = x**2 - design @ np.linalg.lstsq(design, x**2, rcond=None)[0]
    return float(residual @ scored.nll[keep]), float(residual @ residual)


def rank(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    keep = part(oracle, scored, variant)
    return mean(rank_scores(scored.rank, variant["statistic"]), keep)


def entropy(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    own = scored.entropy.astype(np.float64)
    keep = part(oracle, scored, variant)
    if variant["statistic"] == "weighted_nll":
        return float(own[keep] @ scored.nll[keep]), float(own[keep].sum())
    values = {
        "entropy": own,
        "nll_minus_entropy": scored.nll - own,
        "top_1_nll": -scored.top_logprob.astype(np.float64),
    }
    return mean(values[variant["statistic"]], keep)


def calibration(oracle: Oracle, scored: Scored, variant: Variant) -> Terms:
    confidence = np.exp(scored.top_logprob.astype(np.float64))
    right = scored.rank == 1
    bins = np.minimum(np.floor(confidence * int(variant["bins"])), int(variant["bins"]) - 1)
    error = sum(abs(confidence[bins == b].sum() - right[bins == b].sum()) for b in np.unique(bins))
    return float(error), float(len(confidence))


def rare_word_nll(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    return mean(scored.nll, in_words(oracle, scored, variant))


def induction_nll(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    return mean(scored.nll, repeats(oracle, scored, variant))


def copying(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    keep = repeats(oracle, scored, variant)
    size = float(oracle.token_bytes(scored)[keep].sum())
    return (float(scored.nll[keep].sum()) / math.log(2), size) if size else None


def rare_recall(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    rare = {"max_frequency": variant["max_frequency"]}
    return mean(scored.nll, repeats(oracle, scored, variant) & in_words(oracle, scored, rare))


def induction_advantage(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    keep = repeats(oracle, scored, variant)
    length = int(variant["ngram"])
    # a document's first tokens end no n-gram
    first = np.isinf(oracle.distances(scored, length)) & (scored.position >= length - 1)
    return (float(scored.nll[first].mean() - scored.nll[keep].mean()), 1.0) if keep.any() else None


def in_context_score(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    """Loss late minus loss early, where the document has all tokens of both parts."""
    losses = []
    for prefix in ("", "base_"):
        first, past = int(variant[f"{prefix}from_position"]), int(variant[f"{prefix}to_position"])
        keep = (scored.position >= first) & (scored.position < past)
        if keep.sum() < past - first:
            return None
        losses.append(float(scored.nll[keep].mean()))
    return losses[0] - losses[1], 1.0


def nll_quantile(oracle: Oracle, scored: Scored, variant: Variant) -> Terms:
    if variant["quantile"]:
        return float(np.quantile(scored.nll, float(variant["quantile"]))), 1.0
    worst = math.ceil(len(scored.nll) * float(variant["worst_share"]))
    return float(np.sort(scored.nll)[::-1][:worst].mean()), 1.0


def min_k_plus_plus(oracle: Oracle, scored: Scored, variant: Variant) -> Terms:
    deviation = np.sqrt(scored.varentropy.astype(np.float64))
    surprise = (scored.entropy.astype(np.float64) - scored.nll) / deviation
    worst = math.ceil(len(surprise) * float(variant["worst_share"]))
    return float(np.sort(surprise)[:worst].mean()), 1.0


def confident_mistakes(oracle: Oracle, scored: Scored, variant: Variant) -> Terms | None:
    sure = np.exp(scored.top_logprob.astype(np.float64)) > 0.9
    return mean((scored.rank > 1).astype(np.float64), sure)


EXPECTED: dict[str, Callable[[Oracle], Values]] = {
    metric: family(metric, whole, terms, exponentiate=True)
    for metric, terms in {
        "perplexity": likelihood,
        "text_key_ppl": rare_word_nll,
        "rare_recall": rare_recall,
    }.items()
} | {
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
        "copying_bits_per_byte": copying,
        "induction_advantage": induction_advantage,
        "in_context_score": in_context_score,
        "nll_quantile": nll_quantile,
        "min_k_plus_plus": min_k_plus_plus,
        "confident_mistakes": confident_mistakes,
    }.items()
}
