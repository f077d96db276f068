"""The report as one HTML page: no network, no external file, readable on a phone and on paper."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape
from pathlib import Path

from analysis.report import figures
from analysis.report.data import Cost, ReportData
from analysis.report.palette import css, family_colours, variable_of
from analysis.report.svg import page_svg
from analysis.report.text import (
    answer,
    breakable,
    caption_leaderboard,
    key_numbers,
    methods,
    partial,
    what_perplexity_hides,
)

TEMPLATES = Path(__file__).parent / "templates"
WIDE, HALF, PHONE = 700, 380, 330

Draw = Callable[[int], figures.Chart]


def report_page(data: ReportData) -> str:
    """The whole page."""
    sections = {
        "leaderboard": ("Leaderboard", _leaderboard(data)),
        "perplexity": ("What perplexity hides", _scatter(data)),
        "profiles": ("Along the document", _profiles(data)),
        "agreement": ("Agreement", _agreement(data)),
        "cost": ("Coverage and cost", _costs(data)),
        "methods": ("Methods", methods(data)),
    }
    links = {key: name for key, (name, section) in sections.items() if section}
    body = "".join(section for _, section in sections.values())
    style = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    script = (TEMPLATES / "report.js").read_text(encoding="utf-8")
    title = f"{data.table.problem}: proxy metrics against the target"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">"
        f"<title>{escape(title)}</title><style>:root{{{css('light')}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{css('dark')}}}}}\n{style}</style>"
        '</head><body><a class="skip" href="#main">Skip to the results</a>'
        f'{_header(data, links)}<main id="main">{body}</main>{_footer(data)}'
        f'<div id="tip" role="status"></div><script>{script}</script></body></html>\n'
    )


def figure_files(data: ReportData) -> dict[str, figures.Chart]:
    """File name (without ending) → chart, for `--figures`."""
    found = {
        "leaderboard": figures.leaderboard_figure(data, WIDE),
        "best_metric": figures.scatter_figure(data, data.best, WIDE),
        "agreement": figures.agreement_figure(data.agreement, WIDE),
    }
    if data.baseline is not None:
        found["baseline"] = figures.scatter_figure(data, data.baseline, WIDE)
    if data.profiles:
        found["nll_profile"] = figures.profile_figure(data, data.profiles, "nll", WIDE)
    if data.gains:
        found["gain_profile"] = figures.profile_figure(data, data.gains, "gain", WIDE)
    return found


def _header(data: ReportData, links: dict[str, str]) -> str:
    items = "".join(f'<li><a href="#{key}">{text}</a></li>' for key, text in links.items())
    return (
        f"<header><p class=quiet>{escape(data.table.problem)}</p><h1>{escape(data.title)}</h1>"
        f'<p class="lead">{escape(data.description)}</p>{answer(data)}{partial(data)}'
        f"{key_numbers(data)}"
        f'<nav aria-label="Sections"><ul>{items}</ul></nav></header>'
    )


def _footer(data: ReportData) -> str:
    origin = data.provenance
    revision = origin["revision"] or "unknown"
    versions = ", ".join(f"{name} {version}" for name, version in origin["versions"].items())
    return (
        f"<footer><p>Code revision {escape(revision)}"
        f"{' with local changes' if origin['dirty'] else ''}; seed {origin['seed']}, "
        f"{origin['resamples']:,} bootstrap resamples; {escape(versions)}.</p></footer>"
    )


def _figure(name: str, title: str, caption: str, draw: Draw, wide: int = WIDE) -> str:
    """A figure in two drawings, for wide columns and for phones; only one is shown."""
    drawings = "".join(
        f'<div class="{kind}">{page_svg(draw(width), f"{name}-{kind}", escape(title))}</div>'
        for kind, width in (("wide", wide), ("narrow", PHONE))
    )
    said = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f"<figure>{drawings}{said}</figure>"


def _family_keys(data: ReportData) -> str:
    shapes = {
        "circle": '<circle cx="6.5" cy="6.5" r="5"/>',
        "square": '<rect x="2" y="2" width="9" height="9"/>',
        "triangle-up": '<path d="M6.5 1.5 12 11H1z"/>',
        "diamond": '<path d="M6.5 1 12 6.5 6.5 12 1 6.5z"/>',
        "cross": '<path d="M4.5 1h4v3.5H12v4H8.5V12h-4V8.5H1v-4h3.5z"/>',
        "triangle-down": '<path d="M6.5 11.5 1 2h11z"/>',
    }
    items = "".join(
        f'<li><svg viewBox="0 0 13 13" aria-hidden="true" fill="{variable_of(colour)}">'
        f"{shapes[figures.SHAPES[index % len(figures.SHAPES)]]}</svg>{escape(family)}</li>"
        for index, (family, colour) in enumerate(family_colours(data.table.families).items())
    )
    return f'<ul class="keys" aria-label="Model families">{items}</ul>'


def _leaderboard(data: ReportData) -> str:
    figure = _figure(
        "leaderboard-title",
        "Spearman correlation of each metric's best variants with the target",
        caption_leaderboard(data),
        lambda width: figures.leaderboard_figure(data, width),
        wide=620,
    )
    rows = []
    for entry in data.board.entries:
        candidate = data.candidate(entry.column)
        found = entry.details
        cells = [
            _number(entry.rho),
            "–" if found is None else _span(found.spearman.percentile),
            _span(entry.family),
            _number(entry.within.value),
            _number(candidate.held_out if candidate else math.nan),
            "–" if found is None else _number(found.pearson),
            "–"
            if found is None
            else f"{_number(found.skipped_spearman.value)} ({found.skipped.kept})",
            _number(candidate.partial if candidate else math.nan),
            "–" if candidate is None else f"{candidate.p_adjusted:.3f}",
            str(entry.n),
        ]
        name = breakable(entry.column.name) + ("" if entry.column.admissible else " †")
        rows.append(
            f'<tr><th scope="row">{name}</th>{"".join(f"<td>{c}</td>" for c in cells)}</tr>'
        )
    heads = (
        "variant", "Spearman", "95% CI", "with families", "within families", "held out",
        "Pearson", "skipped (kept)", "given size", "p adj.", "n",
    )  # fmt: skip
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    return (
        f'<section aria-labelledby="leaderboard"><h2 id="leaderboard">Leaderboard</h2>{figure}'
        f"<details><summary>All {len(rows)} variants as a table</summary>"
        '<p class=quiet id="variants-note">Best first by absolute Spearman. Bootstrap intervals '
        "are given for the best variants of each metric, p for those that are complete and "
        "admissible. † needs a second model.</p>"
        '<div class="scroll" tabindex="0" role="region" aria-label="All variants">'
        f'<table class="dense" aria-describedby="variants-note"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></details></section>"
    )


def _scatter(data: ReportData) -> str:
    panels = []
    for name, heading, entry in (
        ("baseline", "Perplexity", data.baseline),
        ("best", "The best metric", data.best),
    ):
        if entry is None or (name == "best" and entry is data.baseline):
            continue
        figure = _figure(
            f"{name}-title",
            f"{entry.column.name} against the target, one point per model",
            "",
            lambda width, entry=entry: figures.scatter_figure(data, entry, width),  # type: ignore[misc]
            wide=HALF,
        )
        said = f"{breakable(entry.column.name)}, rho {_number(entry.rho)}"
        panels.append(f"<div><h3>{heading}</h3><p class=quiet>{said}</p>{figure}</div>")
    return (
        '<section aria-labelledby="perplexity"><h2 id="perplexity">What perplexity hides</h2>'
        f"{what_perplexity_hides(data)}{_family_keys(data)}"
        f'<div class="pair">{"".join(panels)}</div>'
        "<p class=quiet>Hollow points are dropped by the MCD filter of the skipped correlation. "
        "‘…’ stands for the name of the base model.</p></section>"
    )


def _profiles(data: ReportData) -> str:
    if not data.profiles and not data.gains:
        return ""
    panels = []
    for what, heading, bands in (
        ("nll", "Surprise after the whole document so far", data.profiles),
        ("gain", "What the far context adds", data.gains),
    ):
        if bands:
            figure = _figure(
                f"{what}-title",
                f"{heading}: mean per position, one line per model",
                "",
                lambda width, bands=bands, what=what: figures.profile_figure(  # type: ignore[misc]
                    data, bands, what, width
                ),
                wide=HALF,
            )
            panels.append(f"<div><h3>{heading}</h3>{figure}</div>")
    return (
        '<section aria-labelledby="profiles"><h2 id="profiles">Along the document</h2>'
        "<p>A model that uses its context gets less surprised the further it reads; one that "
        "loses the thread turns upwards. The gain compares the same tokens with and without the "
        "text before the short window.</p>"
        f'{_family_keys(data)}<div class="pair">{"".join(panels)}</div></section>'
    )


def _agreement(data: ReportData) -> str:
    figure = _figure(
        "agreement-title",
        "Spearman between metrics, each by its best variant, and with the target",
        "Each metric by its best variant; last row and column: the target. Metrics that agree "
        "with each other say the same thing twice. Blue: agree; orange: opposed; the stronger "
        "the colour, the closer.",
        lambda width: figures.agreement_figure(data.agreement, width),
        wide=560,
    )
    return (
        '<section aria-labelledby="agreement"><h2 id="agreement">Agreement among metrics</h2>'
        f"{figure}</section>"
    )


def _costs(data: ReportData) -> str:
    if not data.costs:
        return ""
    most = max(cost.seconds for cost in data.costs) or 1.0
    heads = (
        "model", "conditions complete", "tokens processed", "tokens scored", "computing time",
        "peak memory", "on disk", "bytes a row",
    )  # fmt: skip
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    rows = "".join(_cost_row(cost, most) for cost in data.costs)
    time = _duration(sum(cost.seconds for cost in data.costs))
    scored = sum(cost.tokens_scored for cost in data.costs)
    return (
        '<section aria-labelledby="cost"><h2 id="cost">Coverage and cost</h2>'
        f"<p>{scored:,} scored tokens in {time} of computing, over all conditions; a unit is one "
        "document under one condition.</p>"
        '<div class="scroll" tabindex="0" role="region" aria-label="Cost of each model">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _cost_row(cost: Cost, most: float) -> str:
    per_row = cost.bytes_on_disk / cost.tokens_scored if cost.tokens_scored else math.nan
    missing = (
        f"<small>{cost.documents_missing} units missing</small>" if cost.documents_missing else ""
    )
    share = f"{cost.seconds / most:.1%}"
    cells = [
        f"{cost.conditions_complete} of {cost.conditions}{missing}",
        f"{cost.tokens_processed:,}",
        f"{cost.tokens_scored:,}",
        f'{_duration(cost.seconds)}<span class="bar" style="width:{share}"></span>',
        f"{cost.peak_bytes / 1e9:.1f} GB",
        f"{cost.bytes_on_disk / 1e6:.1f} MB",
        "–" if math.isnan(per_row) or not cost.bytes_on_disk else f"{per_row:.1f}",
    ]
    row = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row">{escape(cost.model)}</th>{row}</tr>'


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:+.3f}".replace("-", "−")


def _span(interval: object) -> str:
    low, high = getattr(interval, "low", math.nan), getattr(interval, "high", math.nan)
    if math.isnan(low):
        return "undefined"
    return f"{low:+.2f} to {high:+.2f}".replace("-", "−")
