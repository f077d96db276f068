"""The report's figures as Altair charts, each for a given width.

Colours are placeholders that `drawing` turns into CSS variables (for the page, where they follow
the reader's theme) or into fixed colours (for PNG and SVG files).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from analysis.ranking.metric_table import MetricColumn
from analysis.ranking.results import Row
from analysis.ranking.view import FEW_TOKENS
from analysis.report.data import DepthCell, MetricCorrelations, ReportData, point_labels
from analysis.report.drawing import (
    BARE_AXIS,
    CATEGORIES,
    FAINT,
    FONT_SIZE,
    INK,
    NEGATIVE,
    PLACES,
    POSITIVE,
    SURFACE,
    Chart,
    along_axis,
    axis_limits,
    family_colours,
    log_ticks,
    offset,
    place_labels,
    powers_of_two,
    spread_labels,
    text_width,
)
from analysis.report.overview import ProfileBand, short_name
from analysis.statistics.formats import signed, span
from analysis.statistics.skipped import mcd_skipped

NARROW = 520
"""Below this width a figure is drawn for a phone."""

MANY_METRICS = 10
"""Beyond, the leaderboard shows one variant of each metric."""

LABEL_GAP = 7
"""Pixels between the end of a line and its name."""

PANEL, PANEL_GAP = 110, 62
"""Pixels of a heat map's sides, and between heat maps, axis labels included."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")


def leaderboard_figure(data: ReportData, width: int) -> Chart:
    """Spearman of each variant with its 95% intervals."""
    narrow = width < NARROW
    rows = [_leaderboard_point(row) for row in _shown(data)]
    order = [row["variant"] for row in rows]
    labels: dict[str, Any] = {"labels": False} if narrow else {"labelLimit": 0, "labelPadding": 8}
    y = alt.Y("variant:N", sort=order, axis=alt.Axis(**BARE_AXIS, **labels))
    chance = float(np.nan_to_num(data.ranking.decisions.overall.least_rho))
    ends = [row[end] for row in rows for end in ("low", "after_low") if row[end] is not None]
    lowest = min([-chance, *ends])
    x = alt.X(
        "rho:Q",
        scale=alt.Scale(domain=[max(-1.0, math.floor(lowest * 4) / 4), 1], nice=False),
        axis=alt.Axis(title="Spearman with the target", tickCount=5, format="+"),
    )
    band = (
        alt.Chart(alt.Data(values=[{"low": -chance, "high": chance}]))
        .mark_rect(color=FAINT, opacity=0.16, aria=False)
        .encode(x="low:Q", x2="high:Q")
    )
    base = alt.Chart(alt.Data(values=rows)).encode(y=y)
    layers = [
        band,
        base.mark_rule(strokeWidth=5, color=INK, opacity=0.3, aria=False).encode(
            x="after_low:Q", x2="after_high:Q"
        ),
        base.mark_rule(strokeWidth=1.5, color=INK, opacity=0.9, aria=False).encode(
            x="low:Q", x2="high:Q"
        ),
        base.mark_point(filled=True, size=80, color=CATEGORIES[0], opacity=1).encode(
            x=x, description="description:N"
        ),
    ]  # fmt: skip
    if narrow:
        names = base.mark_text(align="left", dx=2, dy=-14, color=INK, fontSize=12, aria=False)
        layers.append(names.encode(x=alt.value(0), text="variant:N"))
    step = 40 if narrow else 25
    return alt.layer(*layers).properties(width=width, height=step * max(len(rows), 1))


def scatter_figure(all_families: Sequence[str], data: ReportData, shown: Row, width: int) -> Chart:
    """One metric against the target: a named point per model, dropped points hollow."""
    families = family_colours(all_families)
    rows = _scatter_points(data, shown.column)
    height = round(width * 0.8)
    x_domain, log = axis_limits([row["metric"] for row in rows])
    y_domain, _ = axis_limits([row["target"] for row in rows], allow_log=False)
    lower = shown.column.direction == "lower"
    pixels = [
        (
            width * along_axis(row["metric"], x_domain, log, lower),
            height * (1 - along_axis(row["target"], y_domain)),
        )
        for row in rows
    ]
    labels = point_labels([row["model"] for row in rows])
    places = place_labels(pixels, [labels[row["model"]] for row in rows], width, height)
    for row, place in zip(rows, places, strict=True):
        row |= {"label": labels[row["model"]], "place": place}
    title = shown.column.name + (", log scale" if log else "")
    scale_type = "log" if log else "linear"
    x = alt.X(
        "metric:Q",
        scale=alt.Scale(domain=x_domain, type=scale_type, nice=False, zero=False, reverse=lower),
        axis=alt.Axis(
            title=f"{title} (better →)",
            labelOverlap="greedy",
            values=log_ticks(x_domain) if log else alt.Undefined,
            tickCount=4,
        ),
    )
    y = alt.Y(
        "target:Q",
        scale=alt.Scale(domain=y_domain, nice=False, zero=False),
        axis=alt.Axis(title="downstream target", tickCount=5),
    )
    names = list(families)
    marks = {
        "color": _family_colour(families),
        "shape": alt.Shape(
            "family:N",
            scale=alt.Scale(
                domain=names, range=[SHAPES[i % len(SHAPES)] for i in range(len(names))]
            ),
            legend=None,
        ),
        "description": "description:N",
    }
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y)
    points = base.encode(**marks)
    layers = [
        points.transform_filter("datum.kept").mark_point(filled=True, size=85, opacity=1),
        points.transform_filter("!datum.kept").mark_point(
            filled=False, size=85, strokeWidth=2, opacity=1
        ),
    ]
    for place in PLACES:
        if any(row["place"] == place for row in rows):
            text = base.transform_filter(f"datum.place == '{place}'").mark_text(
                baseline="middle", fontSize=FONT_SIZE, color=INK, aria=False, **offset(place)
            )
            layers.append(text.encode(text="label:N"))
    return alt.layer(*layers).properties(width=width, height=height)


def profile_figure(
    all_families: Sequence[str], bands: Sequence[ProfileBand], what: str, width: int
) -> Chart:
    """NLL or gain along the document: a line per model, positions on a log scale.

    Means of fewer than `FEW_TOKENS` tokens are hollow points that no line joins.
    """
    families = family_colours(all_families)
    labels = point_labels(list(dict.fromkeys(band.model for band in bands)))
    rows: list[dict[str, Any]] = [
        {
            "model": band.model,
            "family": band.family,
            "position": band.position,
            "value": value,
            "joined": band.tokens >= FEW_TOKENS,
            "description": f"{band.model}, around token {band.position:.0f}: {value:.3f} nats, "
            f"{band.tokens:,} tokens",
        }
        for band in bands
        if (value := band.nll if what == "nll" else band.gain) is not None
    ]
    last = {row["model"]: row for row in sorted(rows, key=lambda row: row["position"])}
    plot = round(width - max(text_width(labels[model]) for model in last) - LABEL_GAP)
    height = round(width * 0.62)
    values = [row["value"] for row in rows]
    domain, _ = axis_limits([*values, 0.0] if what == "gain" else values, allow_log=False)
    heights = [height * (1 - along_axis(row["value"], domain)) for row in last.values()]
    for row, fits in zip(last.values(), spread_labels(heights), strict=True):
        row["label"] = labels[row["model"]] if fits else ""
    titles = {"nll": "NLL, nats per token", "gain": "gain from long context, nats per token"}
    x = alt.X(
        "position:Q",
        scale=alt.Scale(type="log", base=2, nice=False, padding=8),
        axis=alt.Axis(
            title="position in the document, tokens",
            values=powers_of_two([row["position"] for row in rows]),
            labelExpr="datum.value >= 1024 ? datum.value / 1024 + 'k' : datum.value",
            labelOverlap="greedy",
        ),
    )
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(domain=domain, nice=False, zero=False),
        axis=alt.Axis(title=titles[what], tickCount=6),
    )
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y)
    coloured = base.encode(color=_family_colour(families))
    points = coloured.encode(description="description:N")
    joined, few = "datum.joined", "!datum.joined"
    layers = [
        coloured.transform_filter(joined)
        .mark_line(strokeWidth=2, opacity=0.75, aria=False)
        .encode(detail="model:N"),
        points.transform_filter(few).mark_point(filled=False, size=22, opacity=0.55),
        points.transform_filter(joined).mark_point(filled=True, size=28, opacity=1),
        base.transform_filter("datum.label")
        .mark_text(
            align="left", baseline="middle", dx=LABEL_GAP, fontSize=FONT_SIZE, color=INK, aria=False
        )
        .encode(text="label:N"),
    ]
    return alt.layer(*layers).properties(width=plot, height=height)


def metric_correlations_figure(correlations: MetricCorrelations, width: int) -> Chart:
    """Heat map: sign by colour, size of the correlation by depth and in writing."""
    names = list(correlations.names)
    rows = [
        {
            "row": row,
            "column": column,
            "size": abs(float(value)),
            "sign": "+" if value >= 0 else "-",
            "text": signed(value).replace("+0.", "+.").replace("-0.", "−."),
            "description": f"{row} and {column}: {signed(value)}",
        }
        for i, row in enumerate(names)
        for j, column in enumerate(names)
        if not math.isnan(value := correlations.matrix[i, j])
    ]
    x = alt.X("column:N", sort=names, axis=alt.Axis(**BARE_AXIS, labelAngle=-45, labelLimit=0))
    y = alt.Y("row:N", sort=names, axis=alt.Axis(**BARE_AXIS, labelLimit=0))
    cell = width / len(names)
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y)
    tiles = base.mark_rect(stroke=SURFACE, strokeWidth=1).encode(
        color=alt.Color(
            "sign:N", scale=alt.Scale(domain=["+", "-"], range=[POSITIVE, NEGATIVE]), legend=None
        ),
        opacity=alt.Opacity(
            "size:Q", scale=alt.Scale(domain=[0, 1], range=[0.04, 0.62]), legend=None
        ),
        description="description:N",
    )
    layers: list[Any] = [tiles]
    if cell >= 26:
        text = base.mark_text(color=INK, fontSize=10 if cell < 34 else 11, aria=False)
        layers.append(text.encode(text="text:N"))
    return alt.layer(*layers).properties(width=width, height=round(min(cell, 40) * len(names)))


def depth_figure(cells: tuple[DepthCell, ...], width: int) -> Chart:
    """Length on the x axis, depth on the y axis: the start of a context is at the top. Darker is
    better.
    """
    models = list(dict.fromkeys(cell.model for cell in cells))
    columns = max(1, (width + PANEL_GAP - 44) // (PANEL + PANEL_GAP))
    rows: list[dict[str, Any]] = [
        {
            "model": cell.model,
            "length": f"{cell.length / 1024:.2g}k",
            "depth": _percent(cell.eighth),
            "score": cell.score,
            "description": f"{cell.model}, {cell.length:,} tokens, answer {_percent(cell.eighth)} "
            f"to {_percent(cell.eighth + 1)} into them: {cell.score:.2f} of {cell.items} items",
        }
        for cell in cells
    ]
    lengths = [f"{length / 1024:.2g}k" for length in sorted({cell.length for cell in cells})]
    depths = [_percent(eighth) for eighth in range(8)]
    axis = {**BARE_AXIS, "labelColor": INK, "labelFontSize": 10}
    tiles = (
        alt.Chart(alt.Data(values=rows))
        .mark_rect(stroke=SURFACE, strokeWidth=1, color=POSITIVE)
        .encode(
            x=alt.X("length:O", sort=lengths, axis=alt.Axis(**axis, labelAngle=0)),
            y=alt.Y(
                "depth:O",
                sort=depths,
                scale=alt.Scale(domain=depths),
                axis=alt.Axis(**axis, values=["0%", "50%"]),
            ),
            opacity=alt.Opacity(
                "score:Q", scale=alt.Scale(domain=[0, 1], range=[0.03, 1]), legend=None
            ),
            description="description:N",
        )
        .properties(width=PANEL, height=PANEL)
    )
    header = alt.Header(
        title=None, labelColor=FAINT, labelFontSize=10, labelLimit=PANEL + PANEL_GAP - 6
    )
    facet = alt.Facet("model:N", sort=models, header=header)
    return tiles.facet(facet=facet, columns=columns, spacing=PANEL_GAP - 30)


def _family_colour(families: dict[str, str]) -> alt.Color:
    scale = alt.Scale(domain=list(families), range=list(families.values()))
    return alt.Color("family:N", scale=scale, legend=None)


def _shown(data: ReportData) -> list[Row]:
    """Rows with intervals; with many metrics only the best variant of each, and the baseline."""
    detailed = [row for row in data.ranking.rows if row.coefficients]
    first: dict[str, Row] = {}
    for row in detailed:
        first.setdefault(row.column.metric, row)
    if len(first) <= MANY_METRICS:
        return detailed
    base = data.ranking.baseline
    return [row for row in detailed if row is first[row.column.metric] or row is base]


def _leaderboard_point(row: Row) -> dict[str, Any]:
    assert row.coefficients is not None
    noise, after = row.documents, row.interval
    drawn = noise.new_documents_and_models if noise else row.coefficients.spearman.percentile
    return {
        "variant": row.column.name + ("" if row.column.admissible else " †"),
        "rho": row.rho,
        "low": _or_none(drawn.low),
        "high": _or_none(drawn.high),
        "after_low": _or_none(after.low),
        "after_high": _or_none(after.high),
        "description": f"{row.column.name}: {signed(row.rho)}, 95% CI {span(after)}, "
        f"bootstrap {span(drawn)}",
    }


def _scatter_points(data: ReportData, column: MetricColumn) -> list[dict[str, Any]]:
    table, present = data.table, np.flatnonzero(column.present)
    filtered = mcd_skipped(column.values[present], table.target[present], data.ranking.seed)
    rows = []
    for place, keep in zip(present, filtered.keep.tolist(), strict=True):
        model, value, target = table.models[place], column.values[place], table.target[place]
        name = short_name(model.full_id)
        rows.append(
            {
                "model": name,
                "family": model.family,
                "metric": float(value),
                "target": float(target),
                "kept": keep,
                "description": f"{name} ({model.family}): metric {value:.4g}, target {target:.4g}"
                + ("" if keep else ", dropped by the MCD filter"),
            }
        )
    return rows


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _percent(eighths: int) -> str:
    return f"{100 * eighths / 8:g}%"
