"""Families of ladder, controls, needles, copies and top-k tokens: expected values, plainly."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pyarrow.parquet as pq
from metric_oracle import Groups, Oracle, Scored, Terms, Values, Variant, family, number
from numpy.typing import NDArray

Curve = tuple[list[int], NDArray[np.float64], int]
"""Contexts, mean NLL after each, number of targets."""
Answer = tuple[float, Scored, Scored]
"""Depth of a needle, and the answer's rows with the needle and without it."""


def lengths(oracle: Oracle, model: str, pattern: str, place: int = -1) -> list[int]:
    """Numbers at a place in the names of a model's conditions."""
    folders = (oracle.folder / f"model_id={model}").glob(f"condition={pattern}")
    return sorted(int(folder.name.split("_")[place]) for folder in folders)


def curves(oracle: Oracle, model: str) -> Groups[Curve]:
    contexts = lengths(oracle, model, "ladder_*")
    rungs = [oracle.documents(model, f"ladder_{context}") for context in contexts]
    return {
        "@ladder": [
            (contexts, np.array([rung[doc].nll.mean() for rung in rungs]), len(rungs[0][doc].nll))
            for doc in (rungs[0] if rungs else ())
        ]
    }


def ladder_gain(oracle: Oracle, curve: Curve, variant: Variant) -> Terms:
    contexts, nll, tokens = curve
    x, y = np.log2(contexts), -nll
    match variant["statistic"]:
        case "per_doubling":
            spread = tokens * ((x - x.mean()) ** 2).sum()
            return np.polyfit(x, y, 1)[0] * spread, spread
        case "area":
            areas = np.diff(x) * (y[1:] + y[:-1] - 2 * y[0]) / 2
            return tokens * areas.sum() / (x[-1] - x[0]), tokens
        case "relative":
            return tokens * (nll[0] - nll[-1]), tokens * nll[0]
    return tokens * (nll[0] - nll[-1]), tokens


def ladder_power(oracle: Oracle, curve: Curve, variant: Variant) -> Terms | None:
    exponents = np.arange(1, 301) / 100
    fitted = [power_law(exponent, *curve[:2]) for exponent in exponents]
    best = int(np.argmax(fitted))
    fits = fitted[best] > 0 and 0 < best < len(exponents) - 1
    if variant["statistic"] == "r_squared":
        return fitted[best], 1.0
    if variant["statistic"] == "share_fit":
        return float(fits), 1.0
    return (float(exponents[best]), 1.0) if fits else None


def power_law(exponent: float, contexts: list[int], nll: NDArray[np.float64]) -> float:
    """R² of the best a · c^-exponent + gamma with a > 0, else 0."""
    x = np.array(contexts, dtype=float) ** -exponent
    slope, constant = np.polyfit(x, nll, 1)
    residual = ((nll - slope * x - constant) ** 2).sum()
    return float(1 - residual / ((nll - nll.mean()) ** 2).sum()) if slope > 0 else 0.0


def ladder_reach(oracle: Oracle, curve: Curve, variant: Variant) -> Terms | None:
    contexts, nll, _ = curve
    gain = nll[0] - nll
    wanted = float(variant["to_share"]) * gain[-1]
    if gain[-1] <= 0:
        return None
    step = next(index for index, found in enumerate(gain) if found >= wanted)
    share = (wanted - gain[step - 1]) / (gain[step] - gain[step - 1])
    return math.log(contexts[step - 1] * (contexts[step] / contexts[step - 1]) ** share), 1.0


def controls(control: str) -> Callable[[Oracle, str], Groups[tuple[Scored, ...]]]:
    """Of each document the answers after itself, alone, and after the control."""

    def groups(oracle: Oracle, model: str) -> Groups[tuple[Scored, ...]]:
        sides = [oracle.documents(model, f"retrieval_{s}") for s in ("with", "without", control)]
        return {"@retrieval": [tuple(side[doc] for side in sides) for doc in sides[-1]]}

    return groups


def control_terms(oracle: Oracle, sides: tuple[Scored, ...], variant: Variant) -> Terms:
    own, alone, other = sides
    tokens = len(other.nll)
    if variant["statistic"] == "accuracy":
        return float((own.rank == 1).sum() - (other.rank == 1).sum()), tokens
    if variant["statistic"] in ("topic", "words", "tail"):
        return float((alone.nll - other.nll).sum()), tokens
    return float((other.nll - own.nll).sum()), tokens


def needles(oracle: Oracle, model: str) -> Groups[list[Answer]]:
    present, absent = (oracle.documents(model, f"needle_{side}") for side in ("present", "absent"))
    folder = oracle.folder / f"model_id={model}" / "condition=needle_present"
    if not folder.is_dir():
        return {}
    footer = json.loads(pq.read_schema(folder / "tokens.parquet").metadata[b"tokenmart.units"])
    depths = json.loads({**footer["common"], **footer["units"][0]}["probe_params"])["depths"]

    def answers(doc: int, scored: Scored) -> Iterator[Answer]:
        for segment in np.unique(scored.segment):
            depth, sentence = divmod(int(segment), len(depths))
            without = absent[doc].where(absent[doc].segment == sentence)
            yield depths[depth], scored.where(scored.segment == segment), without

    return {"@needle": [list(answers(doc, scored)) for doc, scored in present.items()]}


def needle_terms(oracle: Oracle, answers: list[Answer], variant: Variant) -> Terms | None:
    low, high = number(variant["from_share"], 0), number(variant["to_share"], 1)
    chosen = [(present, absent) for depth, present, absent in answers if low <= depth <= high]
    tokens = sum(len(present.nll) for present, _ in chosen)
    if not tokens:
        return None
    match variant.get("statistic"):
        case None:
            return sum(float(present.nll.sum()) for present, _ in chosen), tokens
        case "gain":
            return sum(float((b.nll - a.nll).sum()) for a, b in chosen), tokens
        case "first_token":
            return sum(float(a.rank[0] == 1) for a, _ in chosen), len(chosen)
    return sum(float((a.rank == 1).all()) for a, _ in chosen), len(chosen)


def needle_slope(oracle: Oracle, answers: list[Answer], variant: Variant) -> Terms:
    values: dict[str, Callable[[Scored, Scored], float]] = {
        "nll": lambda a, b: -a.nll.mean(),
        "gain": lambda a, b: (b.nll - a.nll).mean(),
        "first_token": lambda a, b: float(a.rank[0] == 1),
    }
    x = np.array([depth for depth, _, _ in answers])
    y = np.array([values[variant["statistic"]](a, b) for _, a, b in answers])
    spread = float(((x - x.mean()) ** 2).sum())
    return float(np.polyfit(x, y, 1)[0]) * spread, spread


def copies(oracle: Oracle, model: str) -> Groups[list[tuple[Scored, Scored]]]:
    """Of every copy probe, those in the document's order and in a random one: each length."""
    folders = oracle.folder.glob("model_id=*/condition=copy_*_present")
    groups = {}
    for probe in {folder.name.partition("=")[2].rsplit("_", 2)[0] for folder in folders}:
        sides = [
            [oracle.documents(model, f"{probe}_{n}_{side}") for side in ("present", "absent")]
            for n in lengths(oracle, model, f"{probe}_[0-9]*_present", -2)
        ]
        groups[f"@{probe}"] = [
            [(there[doc], without[doc]) for there, without in sides if {doc} <= without.keys()]
            for doc in (sides[0][0] if sides else ())
        ]
    return groups


def copy_terms(
    oracle: Oracle, sides: list[tuple[Scored, Scored]], variant: Variant
) -> Terms | None:
    right = [[(side.rank == 1).mean() for side in pair] for pair in sides]
    if variant["longest"]:
        right = right[-1:]
    plain = variant["statistic"] == "copy"
    total = sum(float(one if plain else one - other) for one, other in right)
    return (total, len(right)) if right else None


def halves(oracle: Oracle, model: str) -> Groups[tuple[Scored, list[Scored | None]]]:
    """Of each document: its rows after itself, and behind others for each length."""
    found = [
        oracle.documents(model, f"halves_{length}") for length in lengths(oracle, model, "halves_*")
    ]
    full = oracle.documents(model, "full")
    return {"@halves": [(own, [half.get(doc) for half in found]) for doc, own in full.items()]}


def halves_terms(
    oracle: Oracle, document: tuple[Scored, list[Scored | None]], variant: Variant
) -> Terms | None:
    own, behind = document
    lost = [
        None if half is None
        else float((half.nll - own.nll[np.isin(own.position, half.position)]).sum())
        for half in behind
    ]  # fmt: skip
    if variant["statistic"] == "growth":
        first, last = lost[0], lost[-1]
        return None if first is None or last is None or None in lost else (last, first)
    at = 0 if variant["statistic"] == "shortest" else -1
    chosen, nats = behind[at], lost[at]
    return None if chosen is None or nats is None else (nats, float(len(chosen.nll)))


def choices(oracle: Oracle, model: str, condition: str) -> dict[int, dict[int, dict[int, float]]]:
    """Document → position → id of a choice → its log-probability."""
    folder = oracle.folder.parent.parent / "top_tokens" / oracle.folder.name
    found: dict[int, dict[int, dict[int, float]]] = {}
    for path in (folder / f"model_id={model}" / f"condition={condition}").glob("*.parquet"):
        for row in pq.ParquetFile(path).read().to_pylist():
            token = found.setdefault(row["doc_id"], {}).setdefault(row["position"], {})
            token[row["choice_id"]] = row["logprob"]
    return found


def divergence(one: dict[int, float], other: dict[int, float]) -> float:
    """Kullback-Leibler divergence over the ids of both and the rest."""
    common = sorted(one.keys() & other.keys())
    p, q = (np.exp([each[i] for i in common]) for each in (one, other))
    p, q = (np.append(each, max(1 - each.sum(), 1e-5)) for each in (p, q))
    logs = np.array([one[i] - other[i] for i in common] + [math.log(p[-1] / q[-1])])
    return float((p * logs).sum())


@cache
def choice_divergences(oracle: Oracle, model: str) -> Groups[tuple[float, float, int]]:
    """By window, of each document: both divergences, summed over tokens, and their number."""
    full, groups = choices(oracle, model, "full"), {}
    for window in oracle.windows:
        sums = []
        for doc, tokens in choices(oracle, model, window).items():
            pairs = [(full[doc][at], less) for at, less in tokens.items() if at in full[doc]]
            forth = math.fsum(divergence(long, less) for long, less in pairs)
            back = math.fsum(divergence(less, long) for long, less in pairs)
            sums.append((forth, back, len(pairs)))
        groups[f"@{window}"] = sums
    return groups


def choice_terms(oracle: Oracle, sums: tuple[float, float, int], variant: Variant) -> Terms:
    forth, back, tokens = sums
    top = {"long_to_short": forth, "short_to_long": back}
    return top.get(variant["statistic"], forth + back), tokens


def from_reference(oracle: Oracle, model: str) -> Groups[tuple[int, list[dict[str, float]]]]:
    """Of each document: its length, and the divergences of its tokens from the reference."""
    folder = oracle.folder.parent.parent / "divergences" / oracle.folder.name
    scored = oracle.documents(model, "divergence")
    files = (folder / f"model_id={model}" / "condition=divergence").glob("*.parquet")
    tables = [pq.ParquetFile(path).read().to_pylist() for path in sorted(files)]
    return {"@divergence": [(scored[rows[0]["doc_id"]].length, rows) for rows in tables]}


def reference_terms(
    oracle: Oracle, document: tuple[int, list[dict[str, float]]], variant: Variant
) -> Terms | None:
    """Statistics of a document's divergences from the reference, or of a part of it."""
    length, rows = document
    low, high = number(variant["from_share"], 0.0), number(variant["to_share"], 1.0)
    part = [row for row in rows if low * length <= row["position"] < high * length]
    names = {"forth": "kl_reference_model", "back": "kl_model_reference", "same": "same_top"}
    if name := names.get(variant["statistic"]):
        return (math.fsum(row[name] for row in part), len(part)) if part else None
    values = [row["kl_reference_model"] for row in part]
    return float(np.quantile(values, float(variant["statistic"]))), 1.0


EXPECTED: dict[str, Callable[[Oracle], Values]] = {
    "forgetting_curve": family("forgetting_curve", copies, copy_terms),
    "ladder_gain": family("ladder_gain", curves, ladder_gain),
    "ladder_power": family("ladder_power", curves, ladder_power),
    "ladder_reach": family("ladder_reach", curves, ladder_reach, exponentiate=True),
    "mutual_information": family("mutual_information", halves, halves_terms),
    "retrieval_lookup": family("retrieval_lookup", controls("foreign"), control_terms),
    "retrieval_order": family("retrieval_order", controls("shuffled"), control_terms),
    "retrieval_distance": family("retrieval_distance", controls("tail"), control_terms),
    "needle_recall": family("needle_recall", needles, needle_terms),
    "needle_nll": family("needle_nll", needles, needle_terms),
    "needle_slope": family("needle_slope", needles, needle_slope),
    "choice_divergence": family("choice_divergence", choice_divergences, choice_terms),
    "divergence": family("divergence", from_reference, reference_terms),
    "same_top": family("same_top", from_reference, reference_terms),
}
