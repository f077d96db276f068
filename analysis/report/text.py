"""The report's sentences: what the numbers say, in the order a reader asks."""

from __future__ import annotations

import math
from html import escape

from analysis.ranking.verdict import Verdict
from analysis.report.data import ReportData
from analysis.statistics.winner import LEVEL, SAME_RANKING, STABLE_SHARE


def answer(data: ReportData) -> str:
    """The verdict, first thing on the page."""
    verdict = data.verdict
    if verdict is None:
        count = len(data.table.models)
        return (
            f'<div class="answer none"><p><strong>Too few models for a verdict</strong>: {count} '
            "have a target score.</p></div>"
        )
    if verdict.winner is not None:
        name = breakable(verdict.winner.column.name)
        tested = verdict.splits.tested
        return (
            f'<div class="answer"><p><strong>{name}</strong> tracks the target: rho '
            f"{_signed(verdict.winner.rho)} over {verdict.models} models, "
            f"{_signed(verdict.ruling.by_model.held_out)} when each model is left out of the "
            f"choice. Against the best of {len(verdict.candidates)} variants by luck, "
            f"{_p(verdict.winner.p_adjusted)}; within model families, "
            f"{_p(verdict.ruling.p_within_families)}. Chosen anew on {verdict.models - tested} of "
            f"the models, the choice reaches {_signed(verdict.splits.held_out)} on the other "
            f"{tested}. Leaving one model out, the choice ranks the models alike in "
            f"{verdict.ruling.stability.same_ranking:.0%} of the cases.</p></div>"
        )
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in verdict.reasons)
    return (
        '<div class="answer none"><p><strong>No winner.</strong> No variant meets every '
        f"condition:</p><ul>{reasons}</ul></div>"
    )


def partial(data: ReportData) -> str:
    """A warning when the numbers rest on part of the documents."""
    missing = [cost.model for cost in data.costs if cost.documents_missing]
    if not missing:
        return ""
    return (
        f'<p class="quiet">Partial extraction: documents are missing for {len(missing)} of '
        f"{len(data.costs)} models (see coverage); these numbers may move.</p>"
    )


def key_numbers(data: ReportData) -> str:
    """A handful of numbers to hold on to."""
    pairs = [
        ("models", str(len(data.table.models))),
        ("variants compared", f"{data.compared} of {len(data.board.entries)}"),
        ("best rho, in sample", _signed(data.best.rho)),
    ]
    if data.verdict is not None:
        splits = data.verdict.splits
        pairs += [
            ("the choice, held out", _signed(splits.held_out)),
            ("optimism of choosing", _signed(splits.optimism)),
            ("best |rho| by luck, 95%", f"{data.luck.null_95:.2f}"),
        ]
    items = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in pairs)
    return f'<dl class="numbers">{items}</dl>'


def caption_leaderboard(data: ReportData) -> str:
    """How to read the leaderboard."""
    text = (
        "The best of each metric. Point: Spearman on all models; metrics where lower is better "
        "are negated first. Thick line: its 95% percentile bootstrap interval, right for "
        "independent models; thin line: the interval that allows for families."
    )
    if data.verdict is not None:
        text += (
            f" Diamond: mean over {len(data.verdict.splits.chosen)} random splits on models that "
            "were not used."
        )
    return text + (
        f" Grey band: where the best of {data.compared} variants lands by luck, 19 times in 20."
    )


def what_perplexity_hides(data: ReportData) -> str:
    """The comparison with perplexity, in words that fit what was found."""
    verdict, baseline, best = data.verdict, data.baseline, data.best
    if baseline is None:
        return "<p>Perplexity is not among the extracted metrics.</p>"
    names = f"<strong>{breakable(best.column.name)}</strong>"
    text = (
        f"Perplexity reaches rho {_signed(baseline.rho)}, the best metric {names} "
        f"{_signed(best.rho)}."
    )
    if verdict is None or verdict.beats is None:
        return f"<p>{text}</p>"
    if verdict.best_minus_baseline is not None:
        interval = verdict.best_minus_baseline.percentile
        text += (
            f" The difference from {breakable(baseline.column.name)} is "
            f"{_signed(verdict.best_minus_baseline.value)}, 95% CI {_signed(interval.low)} to "
            f"{_signed(interval.high)}, before paying for the choice."
        )
    splits = verdict.splits
    if splits.baseline_test is not None:
        text += (
            f" On {splits.tested} models that weren't used for choosing, perplexity reaches "
            f"{_signed(splits.baseline_held_out)} on average and the choice "
            f"{_signed(splits.held_out)}; the choice does better in {splits.beats_baseline:.0%} of "
            "the splits."
        )
    return f"<p>{text}</p><p>{_beaters(verdict)}</p>"


def _beaters(verdict: Verdict) -> str:
    better = [c for c in verdict.candidates if c.p_beats_baseline < LEVEL]
    if not better:
        return (
            "<strong>Beyond chance, no variant beats perplexity</strong>: swapping each model's "
            "metric and perplexity at random does as well as the best of "
            f"{len(verdict.candidates)} variants too often."
        )
    names = ", ".join(breakable(c.column.name) for c in better[:5])
    more = f" and {len(better) - 5} more" if len(better) > 5 else ""
    return (
        f"<strong>Beyond chance, {len(better)} variants beat perplexity</strong> (swap test, "
        f"adjusted for all of them): {names}{more}."
    )


def methods(data: ReportData) -> str:
    """Formulas of the metrics and the statistics behind the numbers."""
    seen: dict[str, tuple[str, str]] = {}
    for entry in data.board.entries:
        column = entry.column
        seen.setdefault(column.metric, (column.formula, column.description))
    metrics = "".join(
        f"<dt>{escape(name)}</dt><dd><code>{escape(formula)}</code></dd>"
        f"<dd>{_prose(description, formula)}</dd>"
        for name, (formula, description) in sorted(seen.items())
    )
    notes = {
        "Intervals": "All are for 95%. The percentile bootstrap over models (and BCa, in "
        "<code>tokenmart correlate --json</code>) is right when no two models are of one family. "
        "The interval with families widens Fisher's by a design effect: what intraclass "
        "correlations of metric and target make of the number of models. Trust it when models "
        "come in families, as long as families relate metric and target as their members do. In "
        "simulations with 17 models in 4 families it then covers 94% to 100%, the bootstrap 85% to "
        "93% when families share half of the variance; where families and members differ, a "
        "handful of families can't bound rho, and it covers 89%.",
        "Within families": "Partial Spearman given the family: do differences among relatives "
        "follow the target?",
        "Stability": _stability(data.verdict),
        "Skipped Spearman": "Spearman on the points whose squared robust distance (MinCovDet with "
        "a fixed seed) is within the 0.975 quantile of chi-squared with 2 degrees of freedom. Its "
        "bootstrap intervals are wide and err on the safe side.",
        "Held out": _held_out(data.verdict),
        "Left out": "The variant is chosen without a model or a family, then the left-out models "
        "are placed among the others by it; Spearman of these places with the target.",
        "p adj.": "The target is permuted for all variants together; the largest |rho| over the "
        "variants is the yardstick. Within model families: the same, permuting only among models "
        "of one family, because families that share a level make the free test reject too often.",
        "Given size": "Partial Spearman with log parameters held constant.",
    }
    statistics = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in notes.items())
    return (
        '<section aria-labelledby="methods"><h2 id="methods">Methods</h2><h3>Metrics</h3>'
        f'<dl class="methods">{metrics}</dl><h3>Statistics</h3><dl class="methods">{statistics}'
        "</dl></section>"
    )


def _stability(verdict: Verdict | None) -> str:
    if verdict is None:
        return "Not computed: too few models."
    found = verdict.ruling.stability
    return (
        f"With each of the {found.folds} models left out in turn, the choice is the same variant "
        f"in {found.same_variant:.0%} of the cases, a variant of the same metric in "
        f"{found.same_metric:.0%}, and one that ranks all models alike (Spearman {SAME_RANKING} "
        f"or more) in {found.same_ranking:.0%}. Only the last, at least {STABLE_SHARE:.0%}, is a "
        "condition for a winner: names depend on how finely parameters were varied, rankings "
        "don't."
    )


def _held_out(verdict: Verdict | None) -> str:
    if verdict is None:
        return "Not computed: too few models."
    tested = verdict.splits.tested
    return (
        f"On {verdict.models - tested} of the {verdict.models} models, drawn at random, the sign "
        "is fixed (and, for the procedure, the variant chosen); the correlation is taken on the "
        f"other {tested}."
    )


def breakable(name: str) -> str:
    """A variant's name as HTML that a narrow column breaks at its joints."""
    return escape(name).replace("/", "/<wbr>").replace("@", "<wbr>@")


def _prose(description: str, formula: str) -> str:
    """A catalogue description without the formula it opens with; backticks become code."""
    text = description.replace(f"`{formula}`", "", 1).strip()
    text = text.removeprefix("Formula:").lstrip(" .:\n")
    parts = escape(text).split("`")
    return "".join(
        f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts)
    ).replace("**", "")


def _p(value: float) -> str:
    return "p &lt; 0.001" if value < 0.001 else f"p = {value:.3f}"


def _signed(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:+.2f}".replace("-", "−")
