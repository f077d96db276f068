"""Recompute every figure of this study from its committed tables, with NumPy and SciPy alone
(the picture: Altair).

Nothing of Tokenmart is imported: the correlations and intervals printed by `tokenmart correlate`
are checked by a second implementation.

    python studies/minilong/recompute.py      # writes figures.json, recall.svg, recall.json
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pyarrow.parquet as pq
from scipy.stats import rankdata

FOLDER = Path(__file__).parent
SEED = 0
RESAMPLES = 10_000
COUNTED = (2048, 4096, 8064)
"""Lengths in the mean that is the target: `overall: without_shortest` of the problem file."""

METRICS = {
    "retrieval_gain": ("retrieval_gain", "mean@retrieval", 1),
    "bits_per_byte": ("perplexity", "bits_per_byte", -1),
    "text_key_gain": ("text_key_gain", "rare_beyond_2048@window_512", 1),
    "retrieval_recall": ("retrieval_recall", "exact_match@retrieval", 1),
    "longppl": ("longppl", "alpha_0.5_beta_-2@window_512", -1),
    "longppl_external": ("longppl_external", "largest_alpha_2_beta_-2@window_512", -1),
    "context_gain": ("context_gain", "mean@window_512", 1),
}
"""Short name → metric, variant, and sign: 1 where a higher value predicts more recall."""

PUBLISHED = (
    "smollm2-135m",
    "smollm2-135m-rope-base-20k",
    "smollm2-135m-rope-base-40k",
    "smollm2-135m-rope-base-1m",
    "smollm2-135m-linear-1.25",
    "smollm2-135m-linear-1.5",
    "smollm2-135m-window-2048",
    "smollm2-135m-window-1024",
    "smollm2-135m-window-512",
    "smollm2-135m-noise-0.1",
    "smollm2-135m-noise-0.15",
    "smollm2-135m-drop-last-3",
    "gemma3-270m",
    "gemma3-270m-window-1024",
    "gemma3-270m-noise-0.1",
)
"""The 15 models of data/problems/minilong.yml at commit 7189a07, the day before registration."""

DIGIT_TASKS = ("single_key", "multi_key", "multi_value", "variable_tracking")
SCORES = ("digits", "first_digit", "exact")
"""Of an answer: share of right digits, whether the first is right, whether all are."""

Floats = np.ndarray[Any, np.dtype[np.float64]]


@cache
def rows(name: str) -> list[dict[str, Any]]:
    """The rows of one committed table."""
    return pq.read_table(FOLDER / "tables" / f"{name}.parquet").to_pylist()


def rho(x: Floats, y: Floats) -> float:
    """Spearman's rank correlation; NaN where one side is constant."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(x), rankdata(y))[0, 1])


def target(models: list[str], keep: Callable[[str, int], bool]) -> Floats:
    """`[models]` mean score over the tasks and lengths that `keep` accepts, each counted alike."""
    sums: dict[str, dict[str, Floats]] = {model: {} for model in models}
    for row in rows("item_groups"):
        task, _, length = row["task"].rpartition("_")
        if keep(task, int(length)):
            of_task = sums[row["model_id"]].setdefault(row["task"], np.zeros(2))
            of_task += (row["score"] * row["items"], row["items"])
    return np.array([np.mean([top / n for top, n in sums[m].values()]) for m in models])


def values(models: list[str], documents: Sequence[int] | None = None) -> dict[str, Floats]:
    """Short name → `[models]`, higher for more recall; from all documents, or from some."""
    columns: dict[str, Floats] = {}
    of_documents = rows("metric_documents") if documents is not None else []
    for name, (metric, variant, sign) in METRICS.items():
        if documents is None:
            value = {
                row["model_id"]: row["value"]
                for row in rows("metric_values")
                if (row["metric"], row["variant"]) == (metric, variant)
            }
        else:
            sums: dict[str, Floats] = {model: np.zeros(2) for model in models}
            for row in of_documents:
                if (row["metric"], row["variant"]) == (metric, variant) and row[
                    "doc_id"
                ] in documents:
                    sums[row["model_id"]] += (row["numerator"], row["denominator"])
            value = {model: top / bottom for model, (top, bottom) in sums.items() if bottom}
        if all(value.get(model) is not None for model in models):
            columns[name] = sign * np.array([value[model] for model in models])
    return columns


def drawn_rho(x: Floats, y: Floats, weights: Floats) -> Floats:
    """`[draws]` Spearman where each model counts `[draws, models]` times.

    A rank less the mean rank is half of (how many lie below - how many lie above).
    """
    a, b = (weights @ np.sign(v[None, :] - v[:, None]) for v in (x, y))
    with np.errstate(invalid="ignore"):
        rhos: Floats = (weights * a * b).sum(axis=1) / np.sqrt(
            (weights * a * a).sum(axis=1) * (weights * b * b).sum(axis=1)
        )
    return rhos


def drawn_series(groups: list[list[int]]) -> Floats:
    """`[draws, models]`: how often each model is in a draw of whole series, with replacement."""
    random = np.random.default_rng(SEED)
    chosen = random.integers(0, len(groups), (RESAMPLES, len(groups)))
    weights = np.zeros((RESAMPLES, sum(len(group) for group in groups)))
    for number, group in enumerate(groups):
        weights[:, group] = (chosen == number).sum(axis=1)[:, None]
    return weights


def interval(draws: Floats) -> list[float]:
    """95% percentile interval; draws without two different values are left out."""
    return [float(q) for q in np.nanquantile(draws, [0.025, 0.975])]


def exact_p(x: Floats, y: Floats) -> float:
    """One-sided p of Spearman's rho: the share of all orders of `y` that reach it."""
    a, b = rankdata(x), rankdata(y)
    orders = np.array(list(itertools.permutations(b)))
    return float(np.mean(orders @ a >= a @ b - 1e-9))


def drawn_p(x: Floats, y: Floats, orders: np.ndarray[Any, np.dtype[np.intp]]) -> float:
    """One-sided p of Spearman's rho under the given `[draws, models]` orders."""
    a, b = rankdata(x), rankdata(y)
    return float((1 + np.sum(b[orders] @ a >= a @ b - 1e-9)) / (1 + len(orders)))


def within_families(
    groups: dict[tuple[str, str], list[int]], draws: int
) -> np.ndarray[Any, np.dtype[np.intp]]:
    """`[draws, models]`: series change places with those of as many models in their family.

    The registration says 'within families'; series of unequal length don't fit each other's places.
    """
    random = np.random.default_rng(SEED)
    models = sum(len(group) for group in groups.values())
    orders = np.empty((draws, models), dtype=np.intp)
    alike = {(key[0], len(group)) for key, group in groups.items()}
    for family, size in sorted(alike):
        exchanged = [g for key, g in groups.items() if (key[0], len(g)) == (family, size)]
        places = np.concatenate(exchanged)
        for order in orders:
            order[places] = np.concatenate(
                [exchanged[i] for i in random.permutation(len(exchanged))]
            )
    return orders


def series_p(x: Floats, y: Floats, groups: dict[tuple[str, str], list[int]]) -> dict[str, float]:
    """One-sided p of Spearman's rho where whole series of a family and a size exchange places.

    Returns:
        `orders`, their number, all of them equally likely under the null; `p`, the share that
        reaches the observed rho, at least 1 / orders.
    """
    alike: dict[tuple[str, int], list[list[int]]] = {}
    for key, group in groups.items():
        alike.setdefault((key[0], len(group)), []).append(group)
    rhos = []
    for chosen in itertools.product(
        *(itertools.permutations(exchanged) for exchanged in alike.values())
    ):
        order = np.arange(len(y))
        for exchanged, other in zip(alike.values(), chosen, strict=True):
            order[np.concatenate(exchanged)] = np.concatenate(other)
        rhos.append(rho(x, y[order]))
    return {"orders": len(rhos), "p": float(np.mean(np.array(rhos) >= rho(x, y) - 1e-9))}


def common_cause(groups: dict[tuple[str, str], list[int]], dose: Floats) -> list[dict[str, float]]:
    """How often the registered test rejects when a dose lowers metric and target independently.

    Value = -strength of the series * dose + noise, for metric and target alike; strengths are
    |N(0, 1)|, drawn apart for the two, so that one says nothing of the other.
    """
    random = np.random.default_rng(SEED)
    orders = within_families(groups, 1000)
    series = np.empty(len(dose), dtype=int)
    for number, group in enumerate(groups.values()):
        series[group] = number
    rates = []
    for noise in (0.1, 0.5, 1.0):
        rejected = 0
        for _ in range(1000):
            strengths = np.abs(random.normal(size=(2, len(groups))))
            x, y = -strengths[:, series] * dose + noise * random.normal(size=(2, len(dose)))
            rejected += drawn_p(x, y, orders) <= 0.05
        rates.append({"noise": noise, "rejected": rejected / 1000})
    return rates


def answered() -> dict[str, dict[tuple[str, int], list[dict[str, Any]]]]:
    """Model → (task, length) → its answers, one by one: see `ask_again.py`."""
    of_models: dict[str, dict[tuple[str, int], list[dict[str, Any]]]] = {}
    for row in rows("answers"):
        of_model = of_models.setdefault(row["model_id"], {})
        of_model.setdefault((row["task"], row["length"]), []).append(row)
    return of_models


def same_digits() -> dict[str, Any]:
    """Whether the answers of `ask_again.py` are those of the study: digits, context by context."""
    sums: dict[tuple[str, str, int], list[float]] = {}
    for row in rows("answers"):
        task = "recall" if row["task"] == "single_key" else row["task"]
        key = (row["model_id"], f"{task}_{row['length']}", row["context"])
        sums.setdefault(key, []).append(row["digits"])
    apart = [
        abs(row["score"] - float(np.mean(again))) * row["items"]
        for row in rows("item_groups")
        if (again := sums.get((row["model_id"], row["task"], row["cluster"])))
        and len(again) == row["items"]
    ]
    return {"groups": len(apart), "different": sum(each > 1e-6 for each in apart)}


def rescored(x: dict[str, Floats], weights: Floats, models: list[str]) -> dict[str, Any]:
    """The target by digits, first digit and exact match, with the control beside it.

    A target is the mean over four tasks and the lengths asked, each counted alike. `less control`
    is the mean over lengths of the score of planted single keys less that of names that were never
    planted.
    """
    answers = answered()
    lengths = sorted({length for of in answers.values() for _, length in of})

    def mean(model: str, task: str, length: int, name: str) -> float:
        return float(np.mean([row[name] for row in answers[model][task, length]]))

    targets: dict[str, Floats] = {}
    for name in SCORES:
        targets[name] = np.array([
            np.mean([mean(m, task, n, name) for task in DIGIT_TASKS for n in lengths])
            for m in models
        ])  # fmt: skip
    for name in SCORES:
        targets[f"{name} of single keys"] = np.array(
            [np.mean([mean(m, "single_key", n, name) for n in lengths]) for m in models]
        )
        targets[f"{name} less control"] = np.array([
            np.mean([mean(m, "single_key", n, name) - mean(m, "no_key", n, name) for n in lengths])
            for m in models
        ])  # fmt: skip
    of_targets: dict[str, Any] = {}
    for key, y in targets.items():
        drawn = {name: drawn_rho(v, y, weights) for name, v in x.items()}
        of_targets[key] = {
            "mean": float(y.mean()),
            **{
                name: {"rho": rho(v, y), "interval": interval(drawn[name])} for name, v in x.items()
            },
            "difference": {
                "value": rho(x["retrieval_gain"], y) - rho(x["bits_per_byte"], y),
                "interval": interval(drawn["retrieval_gain"] - drawn["bits_per_byte"]),
            },
            "longppl_minus_gain": {
                "value": rho(x["longppl"], y) - rho(x["retrieval_gain"], y),
                "interval": interval(drawn["longppl"] - drawn["retrieval_gain"]),
            },
        }
    return {
        "lengths": lengths,
        "contexts": len({row["context"] for row in rows("answers")}),
        "answers": len(rows("answers")),
        "same_digits": same_digits(),
        "targets": of_targets,
        "control": {
            model: {
                str(length): {
                    task: {"n": len(answers[model][task, length]),
                           **{name: mean(model, task, length, name) for name in SCORES}}
                    for task in ("single_key", "no_key")
                }
                for length in lengths
            }
            for model in models
        },
        "control_mean": {
            str(length): {
                task: {
                    name: float(np.mean([mean(model, task, length, name) for model in models]))
                    for name in SCORES
                }
                for task in (*DIGIT_TASKS, "no_key")
            }
            for length in lengths
        },
    }  # fmt: skip


def literature(
    table: str,
    models: list[str],
    y: Floats,
    weights: Floats,
    groups: dict[tuple[str, str], list[int]],
) -> dict[str, Any]:
    """Correlations of the metrics that `literature.py` computed, adjusted for all that were tested.

    A variant without a value for every model is correlated over the models that have one, and not
    tested. The adjusted p-value is the share of orders in which the largest correlation of any
    variant, of these or of the study, reaches the variant's own; series change places as in the
    registered test.
    """
    signs = {"higher": 1, "lower": -1}
    directions = {(row["metric"], row["variant"]): signs[row["direction"]]
                  for row in [*rows("metric_catalog"), *rows(table)]}  # fmt: skip
    of_variant: dict[tuple[str, str], dict[str, float]] = {key: {} for key in directions}
    for row in [*rows("metric_values"), *rows(table)]:
        if row["value"] is not None:
            of_variant[row["metric"], row["variant"]][row["model_id"]] = row["value"]
    columns = {
        key: directions[key] * np.array([value[model] for model in models])
        for key, value in of_variant.items()
        if len(value) == len(models) and len(set(value.values())) > 1
    }
    ranks = {key: rankdata(column) - (len(models) + 1) / 2 for key, column in columns.items()}
    ranks = {key: rank / np.sqrt(rank @ rank) for key, rank in ranks.items()}
    target_ranks = rankdata(y) - (len(models) + 1) / 2
    target_ranks /= np.sqrt(target_ranks @ target_ranks)
    drawn = target_ranks[within_families(groups, 5000)]
    largest = np.max([drawn @ rank for rank in ranks.values()], axis=0)
    catalogue = {(row["metric"], row["variant"]): row for row in rows(table)}
    core = [key for key, row in catalogue.items() if row["core"] and key in columns]
    return {
        "variants": len(catalogue),
        "with_every_model": sum(key in columns for key in catalogue),
        "tested": len(columns),
        "documents": max(row["documents"] for row in catalogue.values()),
        "incomplete": {
            " ".join(key): {
                "models": len(values),
                "spearman": rho(x, y[known]),
                "interval": interval(drawn_rho(x, y[known], weights[:, known])),
            }
            for key in catalogue
            if key not in columns
            for values in [of_variant[key]]
            for known in [[i for i, model in enumerate(models) if model in values]]
            for x in [directions[key] * np.array([values[models[i]] for i in known])]
        },
        "core": {
            " ".join(key): {
                "spearman": rho(columns[key], y),
                "interval": interval(drawn_rho(columns[key], y, weights)),
                "p_adjusted": float(
                    (1 + np.sum(largest >= target_ranks @ ranks[key] - 1e-9)) / (1 + len(drawn))
                ),
                "tokens": [
                    pick(
                        row["tokens"]
                        for row in rows(table)
                        if (row["metric"], row["variant"]) == key
                    )
                    for pick in (min, max)
                ],
            }
            for key in core
        },
    }


def figures() -> dict[str, Any]:
    """Every figure of the page, JSON-ready."""
    registered = json.loads((FOLDER / "models.json").read_text("utf-8"))
    models = [model["full_id"] for model in registered]
    place = {name: i for i, name in enumerate(models)}
    groups: dict[tuple[str, str], list[int]] = {}
    for i, model in enumerate(registered):
        groups.setdefault((model["family"], model["kind"]), []).append(i)
    dose = np.array([model["dose"] for model in registered], dtype=float)
    places_of_series = {kind: [i for i, m in enumerate(registered) if m["kind"] == kind]
             for kind in dict.fromkeys(m["kind"] for m in registered)}  # fmt: skip
    x = values(models)
    y = target(models, lambda task, length: length in COUNTED)
    series = list(groups.values())
    old = [place[name] for name in PUBLISHED]
    new = [i for i in range(len(models)) if i not in old]
    new_series: dict[tuple[str, str], list[int]] = {}
    for position, i in enumerate(new):
        key = (registered[i]["family"], registered[i]["kind"])
        new_series.setdefault(key, []).append(position)
    intact = [i for i, model in enumerate(registered) if model["kind"] != "drop-last"]
    changed = [kind for kind in places_of_series if kind not in models]
    one = [i for i, name in enumerate(models) if name.startswith("smollm2-135m")]
    first4 = values(models, range(4))
    means = {name: np.array([v[group].mean() for group in series]) for name, v in x.items()}
    y_means = np.array([y[group].mean() for group in series])
    weights = drawn_series(series)
    drawn = {name: drawn_rho(v, y, weights) for name, v in x.items()}
    alone = {key: [i] for i, key in enumerate(groups)}
    gain, perplexity = x["retrieval_gain"], x["bits_per_byte"]
    registered_orders = within_families(groups, 5000)
    two = {
        name: [
            (rho(v[rest], y[rest]), pair)
            for pair in itertools.combinations(changed, 2)
            for rest in [[i for i in range(len(y)) if registered[i]["kind"] not in pair]]
        ]
        for name, v in x.items()
    }
    tokens = [row["tokens"] for row in rows("metric_values")
              if (row["metric"], row["variant"]) == METRICS["text_key_gain"][:2]]  # fmt: skip
    bytes_read: dict[str, list[float]] = {}
    for row in sorted(rows("metric_documents"), key=lambda row: row["doc_id"]):
        if (row["metric"], row["variant"]) == METRICS["bits_per_byte"][:2]:
            bytes_read.setdefault(row["model_id"], []).append(row["denominator"])
    other_bytes = np.divide(bytes_read["gemma3-270m"], bytes_read["smollm2-135m"])
    costs = rows("costs")
    asked = {f"{length} tokens": target(models, lambda t, n, length=length: n == length)
             for length in (1024, *COUNTED)}  # fmt: skip
    asked |= {
        task: target(models, lambda t, n, task=task: t == task and n in COUNTED)
        for task in ("recall", "multi_key", "multi_value", "variable_tracking", "common_words")
    }
    return {
        "models": len(models),
        "documents": len({row["doc_id"] for row in rows("metric_documents")}),
        "bytes_of_gemma": [float(other_bytes.min()), float(other_bytes.max())],
        "contexts": len({row["cluster"] for row in rows("item_groups")}),
        "series": len(series),
        "variants": len(rows("metric_catalog")),
        "on_one_checkpoint": len(one),
        "one_tokenizer": {name: rho(v[one], y[one]) for name, v in x.items()},
        "other_checkpoint": {
            name: rho(np.delete(v, one), np.delete(y, one)) for name, v in x.items()
        },
        "spearman": {
            name: {"all": rho(v, y), "interval": interval(drawn[name]),
                   "series_means": rho(means[name], y_means)}
            for name, v in x.items()
        },
        "difference": {
            "value": rho(gain, y) - rho(perplexity, y),
            "interval": interval(drawn["retrieval_gain"] - drawn["bits_per_byte"]),
        },
        "registered_p": drawn_p(gain, y, registered_orders),
        "series_means_p": drawn_p(
            means["retrieval_gain"], y_means, within_families(alone, 20000)
        ),
        "first_4_documents": rho(first4["retrieval_gain"], y),
        "published": {
            "models": len(old),
            **{name: rho(v[old], y[old]) for name, v in x.items()},
        },
        "not_published": {
            "models": len(new),
            "series": len(new_series),
            "p": {name: exact_p(v[new], y[new]) for name, v in x.items()},
            "p_series": {name: series_p(v[new], y[new], new_series) for name, v in x.items()},
            **{name: rho(v[new], y[new]) for name, v in x.items()},
        },
        "common_cause": common_cause(groups, dose),
        "text_key_tokens": [min(tokens), max(tokens)],
        "without_two_kinds": {
            name: {"lowest": min(rhos), "highest": max(rhos)} for name, rhos in two.items()
        },
        "without_dropped_layers": {name: rho(v[intact], y[intact]) for name, v in x.items()},
        "asked": {part: {name: rho(x[name], scores) for name in x}
                  for part, scores in asked.items()},
        "places": {
            kind: {"models": len(group), **{
                name: float(np.mean(rankdata(x[name])[group] - rankdata(y)[group]))
                for name in ("retrieval_gain", "bits_per_byte")}}
            for kind, group in places_of_series.items()
        },
        "target_mean": {f"{task} {length}": float(np.mean(target(
            models, lambda t, n, task=task, length=length: (t, n) == (task, length))))
            for task in ("recall", "multi_key", "multi_value", "variable_tracking", "common_words")
            for length in (1024, *COUNTED)},
        "rescored": rescored(x, weights, models),
        "new_tokens": new_tokens(),
        "literature": literature("literature", models, y, weights, groups),
        "literature_cost": {
            "tokens_processed": sum(row["tokens_processed"] for row in rows("literature_costs")),
            "hours": sum(row["seconds"] for row in rows("literature_costs")) / 3600,
        },
        "literature_first_document": literature(
            "literature_first_document", models, y, weights, groups
        ),
        "cost": {
            "tokens_processed": sum(row["tokens_processed"] for row in costs),
            "hours": sum(row["seconds"] for row in costs) / 3600,
        },
    }  # fmt: skip


def new_tokens() -> dict[str, Any]:
    """What SmolLM2's own pre-tokenizer changes: tokens of documents, values of models."""
    record = json.loads((FOLDER / "new_tokens.json").read_text("utf-8"))
    changed, scored = record["changed_tokens"], record["scored"]
    return {
        "changed": changed,
        "others": [document for document, tokens in enumerate(changed) if tokens],
        "same": max(abs(row["after"] / row["before"] - 1) for row in scored
                    if row["metric"] == "perplexity" and not changed[row["doc_id"]]),
        "models": [rescored_tokens(model, scored)
                   for model in sorted({row["model_id"] for row in scored})],
    }  # fmt: skip


def rescored_tokens(model: str, scored: list[dict[str, Any]]) -> dict[str, Any]:
    """Relative changes of a model's NLL by document and over all; of its gains, in nats."""
    nll, gain = ([row for row in scored if (row["metric"], row["model_id"]) == (metric, model)]
                 for metric in ("perplexity", "retrieval_gain"))  # fmt: skip
    changes = [(row["after"] - row["before"]) / row["denominator"] for row in gain]
    most = int(np.argmax(np.abs(changes)))
    contexts = sum(row["denominator"] for row in gain)
    return {
        "model": model,
        "nll": [row["after"] / row["before"] - 1 for row in nll],
        "nll_of_all": sum(row["after"] for row in nll) / sum(row["before"] for row in nll) - 1,
        "most": {"document": gain[most]["doc_id"], "change": changes[most],
                 **{name: gain[most][name] / gain[most]["denominator"]
                    for name in ("before", "after")}},
        "gain": [sum(row[name] for row in gain) / contexts for name in ("before", "after")],
    }  # fmt: skip


def picture() -> alt.HConcatChart:
    """Measured recall against retrieval gain and against bits per byte, a dot a model."""
    models = [m["full_id"] for m in json.loads((FOLDER / "models.json").read_text("utf-8"))]
    y = target(models, lambda task, length: length in COUNTED)
    x = values(models)
    panels = []
    for name, sign, title, order in (
        ("retrieval_gain", 1, "retrieval gain, nats (higher is better)", "ascending"),
        ("bits_per_byte", -1, "bits per byte (lower is better; axis reversed)", "descending"),
    ):
        dots = [
            {"x": sign * float(x[name][i]), "y": float(y[i]), "model": model,
             "models": "published" if model in PUBLISHED else "not published"}
            for i, model in enumerate(models)
        ]  # fmt: skip
        axis = alt.X("x:Q", title=title, sort=order, scale=alt.Scale(zero=False))
        marks = alt.Chart(alt.Data(values=dots)).mark_point(filled=True, size=60)
        shape = alt.Shape("models:N", title="before registration")
        height = alt.Y("y:Q", title="measured recall")
        panels.append(marks.encode(x=axis, y=height, shape=shape).properties(width=270, height=220))
    return alt.hconcat(*panels, background="#ffffff")


def main() -> None:
    """Write figures.json, recall.svg and recall.json to the folder of this file."""
    text = json.dumps(figures(), indent=1)
    (FOLDER / "figures.json").write_text(text + "\n", "utf-8")
    picture().save(str(FOLDER / "recall.svg"))
    scores = {
        row["model_id"]: row["score"]
        for row in rows("downstream_scores")
        if row["task"] == "overall"
    }
    # the target of the problem `demo`
    recall = json.dumps(dict(sorted(scores.items())), indent=1)
    (FOLDER / "recall.json").write_text(recall + "\n", "utf-8")
    print(text)


if __name__ == "__main__":
    main()
