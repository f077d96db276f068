"""The README's pictures, drawn from committed figures alone."""

from __future__ import annotations

from typing import Any

import altair as alt

from analysis.report.figures import Chart
from analysis.report.formats import signed
from analysis.report.palette import CATEGORIES, FAINT, INK
from analysis.report.svg import file_svg

DECIDED = "ladder"
"""The problem whose early decisions are drawn: the one with the most independent runs."""

WORDS = {
    "bpb": "bits per byte",
    "soft_log": "log-probability",
    "soft": "probability",
    "accuracy": "accuracy",
}
"""Readings of the ladder, for who doesn't know its names."""

WIDTH, HEIGHT = 560, 230
PANEL = 265
"""Width of one of two panels, in pixels."""


def decisions_picture(readings: list[dict[str, Any]]) -> str:
    """SVG: how often an early reading of a benchmark orders two runs as the final score does.

    A line per reading, 95% intervals over runs and benchmarks.

    Args:
        readings: of `tokenmart e2lm readings`.
    """
    problem = next(each for each in readings if each["problem"] == DECIDED)
    names = list(WORDS.values())
    rows = [
        {
            "stage": stage["stage"],
            "reading": WORDS[reading["reading"]],
            "value": reading["decision_accuracy"],
            "low": reading["interval"][0],
            "high": reading["interval"][1],
        }
        for stage in problem["stages"]
        for reading in stage["readings"]
    ]
    colour = alt.Color(
        "reading:N",
        scale=alt.Scale(domain=names, range=list(CATEGORIES[: len(names)])),
        legend=alt.Legend(
            title=None, orient="top", labelColor=INK, labelFontSize=12, columnPadding=40
        ),
    )
    stages = [stage["stage"] for stage in problem["stages"]]
    x = alt.X(
        "stage:N",
        sort=stages,
        axis=alt.Axis(title="share of the training that is over", labelAngle=0),
    )
    shift = alt.XOffset("reading:N", sort=names)
    scale = alt.Scale(domain=[0.5, 1], nice=False)
    axis = alt.Axis(title="pairs of runs in their final order", tickCount=5, format="%")
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, xOffset=shift, color=colour)
    drawn = alt.layer(
        base.mark_rule(strokeWidth=2.5).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_point(filled=True, size=110, opacity=1).encode(
            y=alt.Y("value:Q", scale=scale, axis=axis)
        ),
    )
    return file_svg(drawn.properties(width=WIDTH, height=HEIGHT), ground=True)


def recall_picture(figures: dict[str, Any]) -> str:
    """SVG: what was foretold, and the baseline, against the target: a point per model.

    Args:
        figures: of `study`.
    """
    families = list(dict.fromkeys(row["family"] for row in figures["target"]["models"]))
    drawn = [name for name, told in figures["told"].items() if told][:1]
    drawn += [figures["baseline"]] if figures["baseline"] not in (None, *drawn) else []
    panels = [_panel(name, figures, families) for name in drawn]
    return file_svg(alt.hconcat(*panels, spacing=36), ground=True)


def _panel(name: str, figures: dict[str, Any], families: list[str]) -> Chart:
    told = figures["told"][name]
    target = {row["model"]: row for row in figures["target"]["models"]}
    rows = [
        {
            "model": model,
            "family": target[model]["family"],
            "metric": value,
            "score": target[model]["score"],
            "low": target[model]["score"] - 2 * (target[model]["stderr"] or 0),
            "high": target[model]["score"] + 2 * (target[model]["stderr"] or 0),
        }
        for model, value in told["values"].items()
    ]
    values = [row["metric"] for row in rows]
    skewed = min(values) > 0 and max(values) > 20 * min(values)
    x = alt.X(
        "metric:Q",
        scale=alt.Scale(type="log" if skewed else "linear", nice=False, zero=False, padding=12),
        axis=alt.Axis(title=f"{name} ({told['better']} is better)", tickCount=4, grid=False),
    )
    scale = alt.Scale(zero=False, nice=False, padding=8)
    axis = alt.Axis(title="recall, mean of the tasks", tickCount=5)
    colour = alt.Color(
        "family:N",
        scale=alt.Scale(domain=families, range=list(CATEGORIES[: len(families)])),
        legend=alt.Legend(
            title=None, orient="top", labelColor=INK, labelFontSize=12, columnPadding=40
        ),
    )
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, color=colour)
    return alt.layer(
        base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_point(filled=True, size=70, opacity=1).encode(
            y=alt.Y("score:Q", scale=scale, axis=axis)
        ),
    ).properties(
        width=PANEL,
        height=HEIGHT,
        title=alt.TitleParams(
            f"Spearman {signed(told['spearman'])}", color=FAINT, fontSize=13, fontWeight="normal"
        ),
    )
