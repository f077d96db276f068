"""Write the figures of a finished demo to JSON and to the quickstart page.

python benchmarks/demo_figures.py

They are what `tokenmart correlate --json` prints. A finished demo does not record times: pass
those that `time make demo` printed, or the recorded ones are kept.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from datetime import datetime, timezone
from typing import Any

import click
from marked_tables import ROOT, table

from warehouse.store.provenance import code_revision

COMMAND = "python benchmarks/demo_figures.py"
BEGIN, END = f"<!-- {COMMAND} -->", "<!-- end of its figures -->"
SHOWN = 3
"""Number of metrics shown from the top of the ranking; two from its end follow."""

BEFORE = """
The result of `make demo` ({date}; 2 cores, no GPU): the best variant of the first {first} and of
the last two of {metrics} metrics. Each metric was computed on {documents} technical documents and
compared with the recall of {models} small models, as measured for the study of 23 models.
"""
TERMS = """
The 95% CI is simultaneous for all metrics tested, so it is valid for the best of them. The p-value
is adjusted for all metrics tested.
"""
AFTER = """
With {models} models in {series} series, {documents} documents and {tested} metrics tested,
{verdict}.
{near} of {variants} variants may be the best. A table of plain correlations shows {plain}.
"""
SOURCE = """
The figures are in `docs/demo_figures.json`. `python benchmarks/demo_figures.py` writes them after
`make demo`.
"""
TIMES = """
From a fresh clone `make demo` took {first_run}, {setup} of them to create `.venv`, on two otherwise
idle cores. A second run is fully cached and took {second_run}.
"""


def demo_figures(problem: str = "demo") -> dict[str, Any]:
    """The figures of the finished demo of this checkout."""
    command = [sys.executable, "-m", "tokenmart", "correlate", "--problem", problem, "--json"]
    printed = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    ranked = json.loads(printed)
    first: dict[str, dict[str, Any]] = {}
    for row in ranked["rows"]:
        first.setdefault(row["metric"], row)
    best = [r for r in first.values() if r["admissible"] and r["p_adjusted"] is not None]
    return {
        "command": COMMAND,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "revision": code_revision()["revision"],
        "models": len(ranked["models"]),
        "series": ranked["groups"]["series_across_families"],
        "documents": max(row.get("documents", 0) for row in ranked["rows"]),
        "metrics": len(best),
        "tested": ranked["tested"]["all"],
        "answer": ranked["answer"],
        "tracks_target": ranked["tracks_target"],
        "variants": sum(
            row["admissible"] and f"{row['metric']}/{row['variant']}" not in ranked["incomplete"]
            for row in ranked["rows"]
        ),
        "not_distinguishable": len(ranked["not_distinguishable_from_best"]),
        "best_spearman": next(
            row["spearman"]
            for row in ranked["rows"]
            if f"{row['metric']}/{row['variant']}" == ranked["best"]
        ),
        "rows": [_row(row) for row in [*best[:SHOWN], *best[SHOWN:][-2:]]],
    }


def _row(row: dict[str, Any]) -> dict[str, Any]:
    interval = row["spearman_ci95_after_choice"]
    return {
        "metric": row["metric"],
        "variant": row["variant"],
        "better": row["direction"],
        "spearman": row["spearman"],
        "low": interval["low"],
        "high": interval["high"],
        "p_adjusted": row["p_adjusted"],
    }


def page_block(figures: dict[str, Any]) -> str:
    """The table and its text, from the JSON alone."""
    texts = figures | {
        "first": SHOWN,
        "plain": _signed(figures["best_spearman"]),
        "near": figures["not_distinguishable"],
        "verdict": {
            "too-few": "**the models are too few to test any of them**",
            "none-tracks": "**no metric tracks the target**",
            "constant-target": "the target is the same for every model",
        }.get(figures["answer"], f"{len(figures['tracks_target'])} variants track the target"),
    }
    columns = {
        "metric": "`{metric}`",
        "variant": "`{variant}`",
        "better": "{better}",
        "Spearman:": "{spearman}",
        "simultaneous 95% CI": "{low} to {high}",
        f"p, adjusted for {figures['tested']}:": "{p_adjusted:.2f}",
    }
    signed = ({name: _signed(row[name]) for name in ("spearman", "low", "high")}
              for row in figures["rows"])  # fmt: skip
    rows = table(columns, (row | own for row, own in zip(figures["rows"], signed, strict=True)))
    before, terms, after, source = (
        _paragraph(text.format_map(texts)) for text in (BEFORE, TERMS, AFTER, SOURCE)
    )
    return "\n".join([BEGIN, before, "", *rows, "", terms, "", after, "", source, END])


def times_text(seconds: dict[str, float]) -> str:
    """How long the demo took, in a sentence."""
    texts = {name: _minutes(value) for name, value in seconds.items()}
    return _paragraph(TIMES.format_map(texts))


def with_figures(page: str, figures: dict[str, Any]) -> str:
    """The page with its block, and the sentence about times, replaced."""
    begin, end = page.index(BEGIN), page.index(END) + len(END)
    page = page[:begin] + page_block(figures) + page[end:]
    begin = page.index("From a fresh clone `make demo` took ")
    end = page.index("\n\n", begin)
    return page[:begin] + times_text(figures["seconds"]) + page[end:]


def _paragraph(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 100, break_on_hyphens=False)


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}".replace("-", "−")


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


@click.command()
@click.option("--first-run", type=float, help="Seconds of the first `make demo`.")
@click.option("--setup", type=float, help="Of them, until `.venv` is ready.")
@click.option("--second-run", type=float, help="Seconds of `make demo` once more.")
def main(**given: float | None) -> None:
    """Write the figures of this checkout's finished demo to JSON and to the quickstart page."""
    out, page = ROOT / "docs" / "demo_figures.json", ROOT / "docs" / "quickstart.md"
    seconds = json.loads(out.read_text("utf-8"))["seconds"]
    seconds |= {name: value for name, value in given.items() if value is not None}
    figures = demo_figures() | {"seconds": seconds}
    out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    page.write_text(with_figures(page.read_text("utf-8"), figures), encoding="utf-8")
    click.echo(f"written {out} and {page}")


if __name__ == "__main__":
    main()
