"""Families over tokens scored in both contexts: expected values from the formulas in words."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.stats
from metric_oracle import (
    Groups,
    Oracle,
    Pairs,
    Terms,
    Values,
    Variant,
    family,
    in_words,
    number,
    rank_scores,
    region,
    repeats,
    word_of_tokens,
)
from numpy.typing import NDArray


def by_window(oracle: Oracle, model: str) -> Groups[Pairs]:
    """A model's documents in each pair of contexts, in text that all models scored, by window."""
    return {f"@{window}": oracle.common_pairs(model, window) for window in oracle.windows}


def by_window_in_all_text(oracle: Oracle, model: str) -> Groups[Pairs]:
    """The same in each tokenizer's own text."""
    return {f"@{window}": oracle.pairs(model, window).values() for window in oracle.windows}


def mean_gain(pairs: Pairs, keep: NDArray[np.bool_]) -> Terms | None:
    """Gain and number of the tokens to keep."""
    return (float(pairs.gain[keep].sum()), float(keep.sum())) if keep.any() else None


def bits_per_byte(oracle: Oracle, pairs: Pairs, keep: NDArray[np.bool_]) -> Terms | None:
    """Gain in bits, and bytes, of the tokens to keep."""
    if not keep.any():
        return None
    bits = float(pairs.gain[keep].sum()) / math.log(2)
    return bits, float(oracle.bytes_of(int(pairs.short.doc_id[0]), pairs.short, keep))


def context_gain(oracle: Oracle, pairs: Pairs, variant: Variant) -> Terms | None:
    gain, tokens = pairs.gain, float(len(pairs.gain))
    if variant["unit"] == "byte":
        return bits_per_byte(oracle, pairs, np.ones(len(gain), dtype=bool))
    match variant["statistic"]:
        case "mean":
            return float(gain.sum()), tokens
        case "relative":
            return float(gain.sum()), float(pairs.short.nll.sum())
        case "share_positive":
            return float((gain > 0).sum()), tokens
        case "share_above":
            return float((gain > float(variant["alpha"])).sum()), tokens
        case "clipped":
            limit = float(variant["clip"])
            return float(np.clip(gain, -limit, limit).sum()), tokens
    raise AssertionError(variant)


def position_gain(oracle: Oracle, pairs: Pairs, variant: Variant) -> Terms | None:
    keep = region(oracle, pairs.short, pairs.full.length, variant)
    return (
        bits_per_byte(oracle, pairs, keep) if variant["unit"] == "byte" else mean_gain(pairs, keep)
    )


def gain_quantile(oracle: Oracle, pairs: Pairs, variant: Variant) -> Terms:
    if variant["quantile"]:
        return float(np.quantile(pairs.gain, float(variant["quantile"]))), 1.0
    return float(scipy.stats.trim_mean(pairs.gain, float(variant["trim"]))), 1.0


def key_share(oracle: Oracle, pairs: Pairs, variant: Variant) -> Terms:
    key = (pairs.gain > float(variant["alpha"])) & (pairs.nll < -float(variant["beta"]))
    match variant["statistic"]:
        case "share":
            return float(key.sum()), float(len(key))
        case "density":
            characters = pairs.short.char_end.max() - pairs.short.char_start.min()
            return float(key.sum()), float(characters) / 1000
        case "gain":
            return float(pairs.gain[key].sum()), float(key.sum())
    raise AssertionError(variant)


def rank_gain(oracle: Oracle, pairs: Pairs, variant: Variant) -> Terms:
    long = rank_scores(pairs.full.rank[pairs.at], variant["statistic"])
    short = rank_scores(pairs.short.rank, variant["statistic"])
    return float(long.sum() - short.sum()), float(len(long))


def min_context(oracle: Oracle, pairs: Pairs, variant: Variant) -> Terms | None:
    right = pairs.full.rank[pairs.at] == 1
    if variant["sure"]:
        right &= np.exp(pairs.full.top_logprob[pairs.at].astype(np.float64)) > float(
            variant["sure"]
        )
    if not right.any():
        return None
    return float((pairs.short.rank[right] > 1).sum()), float(right.sum())


def entropy_resolved(oracle: Oracle, pairs: Pairs, variant: Variant) -> Terms | None:
    short = pairs.short.entropy.astype(np.float64)
    uncertain = short > short.mean() + float(variant["alpha"]) * short.std()
    if not uncertain.any():
        return None
    lower = 1 - pairs.full.entropy[pairs.at].astype(np.float64)[uncertain] / short[uncertain]
    if variant["statistic"] == "share":
        lower = lower > float(variant["epsilon"])
    return float(lower.sum()), float(uncertain.sum())


def entropy_drop(oracle: Oracle, pairs: Pairs, variant: Variant) -> Terms:
    long = pairs.full.entropy[pairs.at].astype(np.float64).sum()
    short = pairs.short.entropy.astype(np.float64).sum()
    relative = variant["statistic"] == "relative"
    return float(short - long), float(short if relative else len(pairs.gain))


def rare_word_gain(oracle: Oracle, pairs: Pairs, variant: Variant) -> Terms | None:
    return mean_gain(pairs, in_words(oracle, pairs.short, variant))


def induction_gain(oracle: Oracle, pairs: Pairs, variant: Variant) -> Terms | None:
    keep = repeats(oracle, pairs.full, variant)[pairs.at]
    if variant["beyond_window"]:
        distance = oracle.distances(pairs.full, int(variant["ngram"]))[pairs.at]
        keep &= distance > pairs.short.context_tokens
    return mean_gain(pairs, keep)


def distance_slope(oracle: Oracle, pairs: Pairs, variant: Variant) -> Terms | None:
    """Least squares of the gain on the octave of the distance to the word's last occurrence."""
    words = word_of_tokens(oracle, pairs.short)
    distance = np.array([word.distance if word else math.inf for word in words])
    keep = in_words(oracle, pairs.short, variant) & np.isfinite(distance)
    if keep.sum() < number(variant.get("min_document_tokens"), 1):
        return None
    x, y = np.floor(np.log2(distance[keep])), pairs.gain[keep]
    return float((x - x.mean()) @ (y - y.mean())), float((x - x.mean()) @ (x - x.mean()))


EXPECTED: dict[str, Callable[[Oracle], Values]] = {
    metric: family(metric, by_window, terms)
    for metric, terms in {
        "context_gain": context_gain,
        "position_gain": position_gain,
        "gain_quantile": gain_quantile,
        "key_share": key_share,
        "rank_gain": rank_gain,
        "min_context": min_context,
        "entropy_drop": entropy_drop,
        "entropy_resolved": entropy_resolved,
        "rare_word_gain": rare_word_gain,
        "text_key_gain": rare_word_gain,
        "distance_frequency_gain": rare_word_gain,
        "distance_slope": distance_slope,
        "induction_gain": induction_gain,
    }.items()
}
EXPECTED["context_gain_all_text"] = family(
    "context_gain_all_text", by_window_in_all_text, context_gain
)
