"""Families of ladder, controls, needles and top-k tokens: expected values, plainly."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np
import pyarrow.parquet as pq
from metric_oracle import Oracle, Scored, Values, Variant, combine, number

Terms = tuple[float, float]
"""Numerator and denominator of a document."""


def over_documents(
    oracle: Oracle,
    metric: str,
    ending: str,
    terms: Callable[[Oracle, str, Variant], Iterator[Terms]],
) -> Values:
    values: Values = {}
    for variant in oracle.variants(metric):
        for model in oracle.models:
            kept = [term for term in terms(oracle, model, variant) if term[1]]
            if kept:
                tops, bottoms = (list(column) for column in zip(*kept, strict=True))
                values[variant["variant"] + ending, model] = combine(
                    variant["aggregation"], tops, bottoms
                )
    return values


def curves(oracle: Oracle, model: str) -> Iterator[tuple[list[int], list[float], int]]:
    """Contexts, mean NLL after each and number of targets, of each document."""
    folders = (oracle.folder / f"model_id={model}").glob("condition=ladder_*")
    contexts = sorted(int(folder.name.rpartition("_")[2]) for folder in folders)
    rungs = [oracle.documents(model, f"ladder_{context}") for context in contexts]
    for doc in rungs[0] if rungs else ():
        yield contexts, [float(rung[doc].nll.mean()) for rung in rungs], len(rungs[0][doc].nll)


def ladder_gain_terms(oracle: Oracle, model: str, variant: Variant) -> Iterator[Terms]:
    for contexts, nll, tokens in curves(oracle, model):
        x, y = np.log2(contexts), -np.array(nll)
        if variant["statistic"] == "per_doubling":
            slope = np.polyfit(x, y, 1)[0]
            spread = tokens * ((x - x.mean()) ** 2).sum()
            yield slope * spread, spread
        elif variant["statistic"] == "area":
            areas = np.diff(x) * (y[1:] + y[:-1] - 2 * y[0]) / 2
            yield tokens * areas.sum() / (x[-1] - x[0]), tokens
        elif variant["statistic"] == "relative":
            yield tokens * (nll[0] - nll[-1]), tokens * nll[0]
        else:
            yield tokens * (nll[0] - nll[-1]), tokens


def ladder_power_terms(oracle: Oracle, model: str, variant: Variant) -> Iterator[Terms]:
    exponents = np.arange(1, 301) / 100
    for contexts, nll, _ in curves(oracle, model):
        fitted = [power_law(exponent, contexts, nll) for exponent in exponents]
        best = int(np.argmax(fitted))
        fits = fitted[best] > 0 and 0 < best < len(exponents) - 1
        if variant["statistic"] == "r_squared":
            yield fitted[best], 1.0
        elif variant["statistic"] == "share_fit":
            yield float(fits), 1.0
        elif fits:
            yield float(exponents[best]), 1.0


def power_law(exponent: float, contexts: list[int], nll: list[float]) -> float:
    """R² of the best a · c^-exponent + gamma with a > 0, else 0."""
    x, y = np.array(contexts, dtype=float) ** -exponent, np.array(nll)
    slope, constant = np.polyfit(x, y, 1)
    residual = ((y - slope * x - constant) ** 2).sum()
    return float(1 - residual / ((y - y.mean()) ** 2).sum()) if slope > 0 else 0.0


def ladder_reach(oracle: Oracle) -> Values:
    def terms(oracle: Oracle, model: str, variant: Variant) -> Iterator[Terms]:
        for contexts, nll, _ in curves(oracle, model):
            gain = nll[0] - np.array(nll)
            wanted = float(variant["to_share"]) * gain[-1]
            if gain[-1] <= 0:
                continue
            step = next(index for index, found in enumerate(gain) if found >= wanted)
            share = (wanted - gain[step - 1]) / (gain[step] - gain[step - 1])
            ratio = contexts[step] / contexts[step - 1]
            yield math.log(contexts[step - 1] * ratio**share), 1.0

    found = over_documents(oracle, "ladder_reach", "@ladder", terms)
    return {key: None if value is None else math.exp(value) for key, value in found.items()}


def control_terms(control: str) -> Callable[[Oracle, str, Variant], Iterator[Terms]]:
    def terms(oracle: Oracle, model: str, variant: Variant) -> Iterator[Terms]:
        own, alone, other = (
            oracle.documents(model, f"retrieval_{name}") for name in ("with", "without", control)
        )
        for doc in other:
            tokens = len(other[doc].nll)
            if variant["statistic"] == "accuracy":
                right = [(scored[doc].rank == 1).sum() for scored in (own, other)]
                yield float(right[0] - right[1]), tokens
            elif variant["statistic"] in ("topic", "words", "tail"):
                yield float((alone[doc].nll - other[doc].nll).sum()), tokens
            else:
                yield float((other[doc].nll - own[doc].nll).sum()), tokens

    return terms


def needles(
    oracle: Oracle, model: str, low: float = 0.0, high: float = 1.0
) -> Iterator[list[tuple[float, Scored, Scored]]]:
    """Of each document: depth, and the answer's rows with the needle and without it."""
    present, absent = (oracle.documents(model, f"needle_{side}") for side in ("present", "absent"))
    folder = oracle.folder / f"model_id={model}" / "condition=needle_present"
    if not folder.is_dir():
        return
    footer = json.loads(pq.read_schema(folder / "tokens.parquet").metadata[b"tokenmart.units"])
    record = {**footer["common"], **footer["units"][0]}
    depths = json.loads(record["probe_params"])["depths"]
    for doc, scored in present.items():
        answers = []
        for segment in np.unique(scored.segment):
            depth, sentence = divmod(int(segment), len(depths))
            if low <= depths[depth] <= high:
                answers.append(
                    (
                        depths[depth],
                        rows_of(scored, segment),
                        rows_of(absent[doc], sentence),
                    )
                )
        yield answers


def rows_of(scored: Scored, segment: int) -> Scored:
    there = scored.segment == segment
    return Scored({name: values[there] for name, values in scored.columns.items()}, scored.length)


def copies(oracle: Oracle) -> Values:
    """Of every copy probe: those in the document's order, and those in a random one."""
    folders = oracle.folder.glob("model_id=*/condition=copy_*_present")
    probes = {folder.name.partition("=")[2].rsplit("_", 2)[0] for folder in folders}
    values: Values = {}
    for probe in probes:
        terms = partial(copy_terms, probe=probe)
        values |= over_documents(oracle, "forgetting_curve", f"@{probe}", terms)
    return values


def copy_terms(oracle: Oracle, model: str, variant: Variant, probe: str) -> Iterator[Terms]:
    folders = (oracle.folder / f"model_id={model}").glob(f"condition={probe}_[0-9]*_present")
    lengths = sorted(int(folder.name.split("_")[-2]) for folder in folders)
    sides = [
        tuple(oracle.documents(model, f"{probe}_{n}_{side}") for side in ("present", "absent"))
        for n in lengths
    ]
    for doc in sides[0][0] if sides else ():
        right = [
            ((present[doc].rank == 1).mean(), (absent[doc].rank == 1).mean())
            for present, absent in sides
            if doc in present and doc in absent
        ]
        if variant["longest"]:
            right = right[-1:]
        plain = variant["statistic"] == "copy"
        yield sum(float(one if plain else one - other) for one, other in right), len(right)


def halves_terms(oracle: Oracle, model: str, variant: Variant) -> Iterator[Terms]:
    folders = (oracle.folder / f"model_id={model}").glob("condition=halves_*")
    lengths = sorted(int(folder.name.rpartition("_")[2]) for folder in folders)
    full = oracle.documents(model, "full")
    halves = [oracle.documents(model, f"halves_{length}") for length in lengths]
    for doc, own in full.items():
        found = [
            float((half[doc].nll - own.nll[np.isin(own.position, half[doc].position)]).sum())
            for half in halves
            if doc in half
        ]
        if variant["statistic"] == "growth":
            if found and len(found) == len(lengths):
                yield found[-1], found[0]
        else:
            at = 0 if variant["statistic"] == "shortest" else -1
            if doc in halves[at]:
                yield found[at], float(len(halves[at][doc].nll))


def needle_terms(oracle: Oracle, model: str, variant: Variant) -> Iterator[Terms]:
    low, high = number(variant["from_share"], 0), number(variant["to_share"], 1)
    for answers in needles(oracle, model, low, high):
        tokens = sum(len(present.nll) for _, present, _ in answers)
        if "statistic" not in variant:
            yield sum(float(present.nll.sum()) for _, present, _ in answers), tokens
        elif variant["statistic"] == "gain":
            yield sum(float((b.nll - a.nll).sum()) for _, a, b in answers), tokens
        elif variant["statistic"] == "first_token":
            yield sum(float(a.rank[0] == 1) for _, a, _ in answers), len(answers)
        else:
            yield sum(float((a.rank == 1).all()) for _, a, _ in answers), len(answers)


def needle_slope_terms(oracle: Oracle, model: str, variant: Variant) -> Iterator[Terms]:
    for answers in needles(oracle, model):
        x = np.array([depth for depth, _, _ in answers])
        y = np.array(
            [
                {
                    "nll": -a.nll.mean(),
                    "gain": (b.nll - a.nll).mean(),
                    "first_token": float(a.rank[0] == 1),
                }[variant["statistic"]]
                for _, a, b in answers
            ]
        )
        spread = float(((x - x.mean()) ** 2).sum())
        yield float(np.polyfit(x, y, 1)[0]) * spread, spread


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
def divergences(oracle: Oracle, model: str, window: str) -> list[tuple[float, float, int]]:
    """Of each document: both divergences, summed over its tokens, and their number."""
    full, short = choices(oracle, model, "full"), choices(oracle, model, window)
    sums = []
    for doc in short:
        both = [
            (divergence(long, less), divergence(less, long))
            for position, less in short[doc].items()
            if (long := full[doc].get(position)) is not None
        ]
        forth, back = (math.fsum(column) for column in zip(*both, strict=True))
        sums.append((forth, back, len(both)))
    return sums


def choice_divergence(oracle: Oracle) -> Values:
    values: Values = {}
    for window in oracle.windows:

        def terms(
            oracle: Oracle, model: str, variant: Variant, window: str = window
        ) -> Iterator[Terms]:
            for forth, back, tokens in divergences(oracle, model, window):
                top = {"long_to_short": forth, "short_to_long": back}
                yield top.get(variant["statistic"], forth + back), tokens

        values |= over_documents(oracle, "choice_divergence", f"@{window}", terms)
    return values


def from_reference(oracle: Oracle, model: str, variant: Variant) -> Iterator[Terms]:
    """Statistics of a document's divergences from the reference, or of a part of it."""
    folder = oracle.folder.parent.parent / "divergences" / oracle.folder.name
    lengths = {doc: each.length for doc, each in oracle.documents(model, "divergence").items()}
    files = (folder / f"model_id={model}" / "condition=divergence").glob("*.parquet")
    for rows in (pq.ParquetFile(path).read().to_pylist() for path in sorted(files)):
        length = lengths[rows[0]["doc_id"]]
        low, high = number(variant["from_share"], 0.0), number(variant["to_share"], 1.0)
        part = [row for row in rows if low * length <= row["position"] < high * length]
        names = {"forth": "kl_reference_model", "back": "kl_model_reference", "same": "same_top"}
        statistic = variant["statistic"]
        if statistic in names:
            yield math.fsum(row[names[statistic]] for row in part), len(part)
        else:
            values = [row["kl_reference_model"] for row in part]
            yield float(np.quantile(values, float(statistic))), 1.0


def of(metric: str, ending: str, terms: Callable[[Oracle, str, Variant], Iterator[Terms]]):  # type: ignore[no-untyped-def]
    return lambda oracle: over_documents(oracle, metric, ending, terms)


EXPECTED: dict[str, Callable[[Oracle], Values]] = {
    "forgetting_curve": copies,
    "ladder_gain": of("ladder_gain", "@ladder", ladder_gain_terms),
    "ladder_power": of("ladder_power", "@ladder", ladder_power_terms),
    "ladder_reach": ladder_reach,
    "mutual_information": of("mutual_information", "@halves", halves_terms),
    "retrieval_lookup": of("retrieval_lookup", "@retrieval", control_terms("foreign")),
    "retrieval_order": of("retrieval_order", "@retrieval", control_terms("shuffled")),
    "retrieval_distance": of("retrieval_distance", "@retrieval", control_terms("tail")),
    "needle_recall": of("needle_recall", "@needle", needle_terms),
    "needle_nll": of("needle_nll", "@needle", needle_terms),
    "needle_slope": of("needle_slope", "@needle", needle_slope_terms),
    "choice_divergence": choice_divergence,
    "divergence": of("divergence", "@divergence", from_reference),
    "same_top": of("same_top", "@divergence", from_reference),
}
