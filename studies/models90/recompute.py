"""Recompute every figure of this study from data/published, with NumPy and SciPy
alone (the picture: Altair).

Nothing of Tokenmart is imported.

    python studies/models90/recompute.py            # writes figures.json and documents.svg
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pyarrow.parquet as pq
from scipy.stats import rankdata

FOLDER = Path(__file__).parent
PUBLISHED = FOLDER.parents[1] / "data" / "published"
SEED = 0
RESAMPLES = 1000
TOP = 26
"""Number of documents that the source's linear projection keeps, with weights of at most 1/26."""

LEAST = 8
"""Minimum number of models that a split is scored on."""

TASKS = ("arc_easy", "piqa", "sciq")
"""The target is the mean accuracy: `target.benchmarks` of the problem file."""

CONTINUED = {
    "sail": "qwen",
    "Wanfq": "llama",
    "codellama": "llama",
    "tencentarc": "llama",
    "scb10x": "mistral",
    "gordicaleksa": "mistral",
    "bigcode": "starcoder",
    "gpt-neo": "pythia",
}
"""Families whose models continue the training of another family, or have the same makers."""

Floats = np.ndarray[Any, np.dtype[np.float64]]


class Models:
    """Published models, their scores on documents and benchmarks.

    bits: `[models, documents]`, negated so that higher is better. accuracy, perplexity: benchmark →
    `[models]`. parameters: NaN if the name has none. tokens: training tokens, NaN if unknown.
    """

    def __init__(self) -> None:
        rows = pq.read_table(PUBLISHED / "perplexity_correlations.parquet").to_pylist()
        self.names = sorted({row["model"] for row in rows})
        place = {name: at for at, name in enumerate(self.names)}
        families = {row["model"]: row["family"] for row in rows}
        sizes = {row["model"]: row["parameters"] for row in rows}
        self.families = [families[name] for name in self.names]
        self.parameters = np.array([sizes[name] or math.nan for name in self.names], float)
        self.documents = sorted({row["document"] for row in rows if row["document"]})
        column = {name: at for at, name in enumerate(self.documents)}
        self.bits = np.full((len(place), len(column)), math.nan)
        self.accuracy: dict[str, Floats] = {}
        self.perplexity: dict[str, Floats] = {}
        for row in rows:
            if row["metric"] == "bits_per_byte":
                self.bits[place[row["model"]], column[row["document"]]] = -row["score"]
            else:
                of = self.accuracy if row["metric"] == "accuracy" else self.perplexity
                scores = of.setdefault(row["benchmark"], np.full(len(place), math.nan))
                scores[place[row["model"]]] = row["score"]
        known = {row["model"]: row["score"] for row in scaling() if row["metric"] == TOKENS}
        self.tokens = np.array([known.get(name, math.nan) for name in self.names])

    def targets(self) -> dict[str, Floats]:
        """The predicted scores; higher is better."""
        scores = {"mean": np.mean([self.accuracy[task] for task in TASKS], axis=0)}
        scores |= {task: self.accuracy[task] for task in TASKS}
        return scores | {"lambada_openai": -np.log(self.perplexity["lambada_openai"])}


TOKENS = "training_tokens"


def scaling() -> list[dict[str, Any]]:
    """Rows of the table of 148 models."""
    return pq.read_table(PUBLISHED / "observational_scaling.parquet").to_pylist()


def correlations(x: Floats, y: Floats) -> Floats:
    """Spearman of each column of `x` with `y`."""
    return pearson(rankdata(x, axis=0), rankdata(y))


def pearson(x: Floats, y: Floats) -> Floats:
    x, y = x - x.mean(axis=0), y - y.mean()
    below = np.sqrt((x**2).sum(axis=0) * (y**2).sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(below > 0, x.T @ y / below, math.nan))


def partial(x: Floats, y: Floats, given: Sequence[Floats]) -> Floats:
    """Partial Spearman of each column of `x` with `y`, from residuals of ranks."""
    return partial_of_ranks(rankdata(x, axis=0), rankdata(y), [rankdata(part) for part in given])


def partial_of_ranks(x: Floats, y: Floats, given: Sequence[Floats]) -> Floats:
    """The same from ranks."""
    fit = np.column_stack([np.ones(len(y)), *given])
    left = [part - fit @ np.linalg.lstsq(fit, part, rcond=None)[0] for part in (x, y)]
    return pearson(left[0], left[1])


def draws(families: Sequence[str], resamples: int) -> list[list[int]]:
    """Models of families drawn with replacement; the number of families is unchanged."""
    rng = np.random.default_rng(SEED)
    groups = [[i for i, f in enumerate(families) if f == name] for name in sorted(set(families))]
    picks = rng.integers(len(groups), size=(resamples, len(groups)))
    return [[i for at in pick for i in groups[at]] for pick in picks]


class Drawn:
    """A statistic `[K]`, and its values for resampled families."""

    def __init__(self, value: Floats, again: Floats) -> None:
        self.value, self.again = value, again[np.isfinite(again).all(axis=1)]

    def interval(self, at: int = 0) -> list[float]:
        """Percentile 95% interval of one part."""
        return [float(q) for q in np.quantile(self.again[:, at], [0.025, 0.975])]

    def excludes_0(self) -> tuple[int, int]:
        """How many of the K are above and below 0 by simultaneous 95% intervals.

        On Fisher's scale: the 95% quantile of the largest |z* − z| in standard errors.
        """
        z, again = np.arctanh(self.value), np.arctanh(np.clip(self.again, -1 + 1e-12, 1 - 1e-12))
        error = again.std(axis=0, ddof=1)
        critical = np.quantile(np.abs((again - z) / error).max(axis=1), 0.95)
        return int((z > critical * error).sum()), int((z < -critical * error).sum())

    def unadjusted(self) -> int:
        """How many of the K have a 95% interval of their own that excludes 0."""
        again = np.arctanh(np.clip(self.again, -1 + 1e-12, 1 - 1e-12))
        error = again.std(axis=0, ddof=1)
        return int((np.abs(np.arctanh(self.value)) > 1.959964 * error).sum())


def drawn_again(statistic: Callable[[list[int]], Floats], families: Sequence[str]) -> Drawn:
    """A statistic of all models, and of models of drawn families."""
    again = [statistic(each) for each in draws(families, RESAMPLES)]
    return Drawn(statistic(list(range(len(families)))), np.array(again))


def methods(ranks: Floats, y: Floats) -> dict[str, Floats]:
    """Weights of documents `[documents]` for each method, computed from some models.

    projected: the source's sign estimator and its linear projection, which gives the same weight to
    the TOP documents. best document: that of the largest estimate. The estimate is γ = Σ over pairs
    sign(y_g − y_k) (F(x_g) − F(x_k)), F the empirical distribution function. Σ over k of
    sign(y_g − y_k) is a linear function of the rank of y_g, so that γ is proportional to Spearman's
    correlation, the source's other estimator.

    Args:
        ranks: `[models, documents]`, of the documents' values.
        y: `[models]`.
    """
    estimate = ranks.T @ np.sign(y[:, None] - y[None, :]).sum(axis=1)
    return {
        "mean": np.ones(len(estimate)),
        "best document": top(estimate, 1),
        "projected": top(estimate, TOP),
    }


def top(values: Floats, count: int) -> Floats:
    """1 for the largest values, 0 for the rest."""
    chosen = np.zeros(len(values))
    chosen[np.argsort(-values, kind="stable")[:count]] = 1
    return chosen


def held_out(bits: Floats, targets: dict[str, Floats], families: Sequence[str]) -> dict[str, Any]:
    """Each method, chosen on drawn families and scored on the other families.

    Intervals are percentiles over the draws, of the difference to the mean's rho.
    """
    rhos_of: dict[str, dict[str, list[float]]] = {name: {} for name in targets}
    sizes = []
    for train in draws(families, RESAMPLES):
        rest = sorted(set(range(len(bits))) - set(train))
        if len(rest) < LEAST:
            continue
        sizes.append(len(rest))
        ranks = rankdata(bits[train], axis=0)
        for target, y in targets.items():
            ways = methods(ranks, y[train])
            rhos = correlations(bits[rest] @ np.column_stack(list(ways.values())), y[rest])
            for name, rho in zip(ways, rhos, strict=True):
                rhos_of[target].setdefault(name, []).append(float(rho))

    def row(rhos: list[float], base: list[float]) -> dict[str, Any]:
        ahead = np.subtract(rhos, base)
        return {
            "rho": float(np.mean(rhos)),
            "minus_mean": float(ahead.mean()),
            "interval": [float(q) for q in np.quantile(ahead, [0.025, 0.975])],
            "ahead": float((ahead > 0).mean()),
        }

    return {
        "splits": len(sizes),
        "models_scored": float(np.mean(sizes)),
        **{
            target: {name: row(rhos, of["mean"]) for name, rhos in of.items()}
            for target, of in rhos_of.items()
        },
    }


def of_targets(models: Models, targets: dict[str, Floats]) -> dict[str, Any]:
    """Correlation of documents with each target: alone, minus their mean, and given their mean."""
    x = np.column_stack([models.bits.mean(axis=1), models.bits])
    alone: dict[str, list[Floats]] = {name: [] for name in targets}
    beyond: dict[str, list[Floats]] = {name: [] for name in targets}
    everybody = list(range(len(x)))
    for models_of_draw in (everybody, *draws(models.families, RESAMPLES)):
        ranks = rankdata(x[models_of_draw], axis=0)
        for name, y in targets.items():
            target_ranks = rankdata(y[models_of_draw])
            alone[name].append(pearson(ranks, target_ranks))
            beyond[name].append(partial_of_ranks(ranks[:, 1:], target_ranks, [ranks[:, 0]]))

    def row(target_ranks: Floats, left: Floats) -> dict[str, Any]:
        both, z = (
            Drawn(target_ranks[0], target_ranks[1:]),
            np.arctanh(np.clip(target_ranks, -1 + 1e-12, 1 - 1e-12)),
        )
        leads = np.tanh(z[:, 1:] - z[:, :1])
        rho = target_ranks[0, 1:]
        return {
            "mean": float(target_ranks[0, 0]),
            "interval": both.interval(),
            "lowest": float(rho.min()),
            "median": float(np.median(rho)),
            "best": float(rho.max()),
            "above_0": Drawn(rho, target_ranks[1:, 1:]).excludes_0()[0],
            "distinguishable_from_mean": Drawn(leads[0], leads[1:]).excludes_0(),
            "beyond_mean_unadjusted": Drawn(left[0], left[1:]).unadjusted(),
        }

    return {name: row(np.array(alone[name]), np.array(beyond[name])) for name in targets}


def given_size(models: Models, y: Floats) -> dict[str, Any]:
    """Correlations given size and training tokens, over the models for which they are known."""
    figures_of: dict[str, Any] = {}
    for name, given in (
        ("parameters", [models.parameters]),
        ("parameters and tokens", [models.parameters, models.tokens]),
    ):
        known = np.flatnonzero(np.isfinite(np.sum(given, axis=0)))
        families = [models.families[i] for i in known]
        logs = [np.log(part[known]) for part in given]
        x, scores = models.bits.mean(axis=1)[known][:, None], y[known]
        drawn = drawn_again(lambda s, x=x, scores=scores, logs=logs: partial(  # type: ignore[misc]
            x[s], scores[s], [part[s] for part in logs]), families)  # fmt: skip
        size = drawn_again(lambda s, scores=scores, logs=logs: correlations(  # type: ignore[misc]
            logs[0][s][:, None], scores[s]), families)  # fmt: skip
        figures_of[name] = {
            "models": len(known),
            "families": len(set(families)),
            "size_alone": float(size.value[0]),
            "size_alone_interval": size.interval(),
            "mean": float(correlations(x, scores)[0]),
            "partial": float(drawn.value[0]),
            "interval": drawn.interval(),
        }
    return figures_of


def one_factor(bits: Floats) -> dict[str, float]:
    """Similarity of documents: first principal component of ranks, and pairs of documents."""
    ranks = rankdata(bits, axis=0)
    ranks = (ranks - ranks.mean(axis=0)) / ranks.std(axis=0)
    variances = np.linalg.svd(ranks, compute_uv=False) ** 2
    pairs = np.corrcoef(ranks.T)[np.triu_indices(bits.shape[1], 1)]
    return {
        "first": float(variances[0] / variances.sum()),
        "second": float(variances[1] / variances.sum()),
        "median_pair": float(np.median(pairs)),
        "lowest_pair": float(pairs.min()),
    }


def within_families(x: Floats, y: Floats, families: Sequence[str]) -> dict[str, Any]:
    """Pearson correlation of ranks minus family means, over families of two or more models."""
    ranks = [rankdata(part) for part in (x, y)]
    groups = {name: [i for i, f in enumerate(families) if f == name] for name in families}
    several = [i for group in groups.values() if len(group) > 1 for i in group]
    for part in ranks:
        for group in groups.values():
            part[group] -= part[group].mean()
    return {
        "rho": float(pearson(ranks[0][several][:, None], ranks[1][several])[0]),
        "models": len(several),
        "families": sum(len(group) > 1 for group in groups.values()),
    }


def compression() -> dict[str, Any]:
    """Correlation of bits per character of three corpora with benchmarks, for large models."""
    scores: dict[tuple[str, str, str], float] = {}
    families: dict[str, str] = {}
    for name in ("observational_scaling", "compression_intelligence"):
        for row in pq.read_table(PUBLISHED / f"{name}.parquet").to_pylist():
            scores[row["model"], row["metric"], row["benchmark"]] = row["score"]
            families.setdefault(row["model"], row.get("family") or "")
    tasks = ("MMLU", "ARC-C", "HellaSwag", "GSM8K")
    corpora = ("common_crawl", "python", "arxiv_math")
    names = sorted({m for m, metric, _ in scores if metric == "bits_per_character"})
    names = [m for m in names if all((m, "accuracy", task) in scores for task in tasks)]
    families_of_names = [families[m] for m in names]
    bits = np.array([[-scores[m, "bits_per_character", c] for c in corpora] for m in names])
    bits = np.column_stack([bits, bits.mean(axis=1)])
    y = np.mean([[scores[m, "accuracy", task] for m in names] for task in tasks], axis=0)
    size = np.log([scores[m, "parameters", "model"] for m in names])
    drawn = drawn_again(
        lambda s: correlations(np.column_stack([bits, size])[s], y[s]), families_of_names
    )
    left = drawn_again(lambda s: partial(bits[s], y[s], [size[s]]), families_of_names)
    return {
        "models": len(names),
        "families": len(set(families_of_names)),
        "parameters": [float(drawn.value[4]), drawn.interval(4)],
        "python_minus_common_crawl": [
            float(drawn.value[1] - drawn.value[0]),
            *np.quantile(drawn.again[:, 1] - drawn.again[:, 0], [0.025, 0.975]).tolist(),
        ],
        **{
            name: {
                "rho": float(drawn.value[at]),
                "interval": drawn.interval(at),
                "given_parameters": float(left.value[at]),
                "given_parameters_interval": left.interval(at),
            }
            for at, name in enumerate((*corpora, "mean"))
        },
    }


def benchmarks() -> dict[str, Any]:
    """Correlation of GSM8K with other benchmarks and with parameters, over 148 models."""
    rows = scaling()
    scores = {(r["model"], r["metric"], r["benchmark"]): r["score"] for r in rows}
    families = {r["model"]: r["family"] for r in rows}
    names = sorted(families)
    named = [("accuracy", task) for task in ("MMLU", "HellaSwag", "Winograd", "TruthfulQA")]
    named.append(("parameters", "model"))
    x = np.array([[scores[(m, *key)] for key in named] for m in names])
    y = np.array([scores[m, "accuracy", "GSM8K"] for m in names])
    drawn = drawn_again(lambda s: correlations(x[s], y[s]), [families[m] for m in names])
    return {
        "models": len(names),
        "families": len(set(families.values())),
        **{
            f"{key[0]} {key[1]}": {"rho": float(drawn.value[at]), "interval": drawn.interval(at)}
            for at, key in enumerate(named)
        },
    }


def fewer_documents(bits: Floats, y: Floats) -> dict[str, list[float]]:
    """Median and 5% quantile of rho for the mean over randomly drawn documents."""
    rng = np.random.default_rng(SEED)
    quantiles = {}
    for count in (1, 3, 10, 30):
        means = np.column_stack([
            bits[:, rng.choice(bits.shape[1], count, replace=False)].mean(axis=1)
            for _ in range(RESAMPLES)
        ])  # fmt: skip
        quantiles[str(count)] = [float(q) for q in np.quantile(correlations(means, y), [0.5, 0.05])]
    return quantiles


def figures() -> dict[str, Any]:
    """Every figure of the page, JSON-ready."""
    models = Models()
    targets = models.targets()
    y, mean = targets["mean"], models.bits.mean(axis=1)
    merged = [CONTINUED.get(family, family) for family in models.families]
    wide = drawn_again(lambda s: correlations(mean[s][:, None], y[s]), merged)
    return {
        "models": len(models.names),
        "families": len(set(models.families)),
        "documents": len(models.documents),
        "parameters": [float(np.nanmin(models.parameters)), float(np.nanmax(models.parameters))],
        "targets": of_targets(models, targets),
        "held_out": held_out(models.bits, targets, models.families),
        "given": given_size(models, y),
        "one_factor": one_factor(models.bits),
        "within_families": within_families(mean, y, models.families),
        "merged_families": {
            "families": len(set(merged)),
            "interval": wide.interval(),
        },
        "fewer_documents": fewer_documents(models.bits, y),
        "compression": compression(),
        "benchmarks": benchmarks(),
    }


def picture() -> alt.HConcatChart:
    """Accuracy against mean bits per byte, and the Spearman of each document."""
    models = Models()
    y, mean = models.targets()["mean"], models.bits.mean(axis=1)
    dots = [{"x": -a, "y": b} for a, b in zip(mean.tolist(), y.tolist(), strict=True)]
    title = f"mean bits per byte of {len(models.documents)} documents (axis reversed)"
    left = alt.Chart(alt.Data(values=dots)).mark_point(filled=True).encode(
        x=alt.X("x:Q", title=title, sort="descending", scale=alt.Scale(zero=False)),
        y=alt.Y("y:Q", title=f"mean accuracy, {len(y)} models", scale=alt.Scale(zero=False)),
    )  # fmt: skip
    rho = correlations(models.bits, y)
    given = partial(models.bits, y, [mean])
    dots = [
        {"x": rank, "y": float(values[document]), "of": of}
        for of, values in (("with accuracy", rho), ("given the mean of the documents", given))
        for rank, document in enumerate(np.argsort(rho))
    ]
    right = alt.Chart(alt.Data(values=dots)).mark_point(filled=True, size=12).encode(
        x=alt.X("x:Q", title="documents, sorted by Spearman"),
        y=alt.Y("y:Q", title="Spearman of each document"),
        color=alt.Color("of:N", title="Spearman"),
    )  # fmt: skip
    panels = (each.properties(width=270, height=220) for each in (left, right))
    return alt.hconcat(*panels, background="#ffffff")


def main() -> None:
    """Write figures.json and documents.svg to the folder of this file."""
    text = json.dumps(figures(), indent=1)
    (FOLDER / "figures.json").write_text(text + "\n", "utf-8")
    picture().save(str(FOLDER / "documents.svg"))
    print(text)


if __name__ == "__main__":
    main()
