"""Write the figures of a finished demo to JSON and to the quickstart page.

python benchmarks/demo_figures.py

It computes nothing that `tokenmart correlate` and `tokenmart select` don't print. A finished demo
does not record times: pass those that `time make demo` printed, or the recorded ones are kept.
"""

from __future__ import annotations

import json
import math
import textwrap
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from analysis.ranking.loading import load_table
from analysis.ranking.results import RankedMetric, Ranking, rank_metrics
from analysis.statistics.correlations import number
from analysis.statistics.resampling import DEFAULT_SPLITS
from warehouse.paths import Workspace, find_workspace
from warehouse.problem.spec import load_ranked
from warehouse.sql.connection import connect_read_only
from warehouse.store.provenance import code_revision

ROOT = Path(__file__).parents[1]
COMMAND = "python benchmarks/demo_figures.py"
BEGIN, END = f"<!-- {COMMAND} -->", "<!-- end of its figures -->"
PROBLEM = "demo"
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
With {models} models in {kinds} series, {documents} documents and {tested} metrics tested,
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


def demo_figures(workspace: Workspace, seed: int = 0) -> dict[str, Any]:
    """The figures of the finished demo in a workspace."""
    table = load_table(load_ranked(PROBLEM, workspace), workspace)
    ranking = rank_metrics(table, seed, splits=DEFAULT_SPLITS)
    with connect_read_only(workspace) as connection:
        documents = connection.execute(
            "select count(distinct doc_id) from units where problem = ? and status = 'done'",
            [PROBLEM],
        ).fetchone()
    assert documents is not None
    best = [
        row
        for row in _best_of_each(ranking)
        if row.column.admissible and not math.isnan(row.p_adjusted)
    ]
    return {
        "command": COMMAND,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "revision": code_revision()["revision"],
        "models": len(table.models),
        "families": len(set(table.families)),
        "kinds": len(set(table.series)),
        "documents": documents[0],
        "metrics": len(best),
        "tested": table.tested["all"],
        "least_spearman": number(ranking.decisions.overall.least_rho),
        "answer": ranking.answer,
        "tracks_target": [row.column.name for row in ranking.tracking],
        "variants": len(ranking.candidates),
        "not_distinguishable": len(ranking.near_best),
        "choice": ranking.choice.record if ranking.choice else None,
        **_of_best(ranking),
        "rows": [_row(row) for row in [*best[:SHOWN], *best[SHOWN:][-2:]]],
    }


def _of_best(ranking: Ranking) -> dict[str, Any]:
    best = ranking.best
    assert best is not None
    return {
        "best": best.column.name,
        "best_spearman": number(best.rho),
        "noise_ceiling": number(ranking.noise_ceiling),
        "new_family": number(best.new_family.value),
        "models_worth": number(best.new_family.worth),
    }


def _best_of_each(ranking: Ranking) -> list[RankedMetric]:
    """The first variant of each metric, best metric first."""
    found: dict[str, RankedMetric] = {}
    for row in ranking.rows:
        found.setdefault(row.column.metric, row)
    return list(found.values())


def _row(row: RankedMetric) -> dict[str, Any]:
    return {
        "metric": row.column.metric,
        "variant": row.column.variant,
        "better": row.column.direction,
        "spearman": number(row.rho),
        "low": number(row.interval.low),
        "high": number(row.interval.high),
        "p_adjusted": number(row.p_adjusted),
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
    table = [
        f"| metric | variant | better | Spearman | simultaneous 95% CI | "
        f"p, adjusted for {figures['tested']} |",
        "|---|---|---|---:|---|---:|",
    ]
    for row in figures["rows"]:
        rho = _signed(row["spearman"])
        span = f"{_signed(row['low'])} to {_signed(row['high'])}"
        names = [f"`{row['metric']}`", f"`{row['variant']}`", row["better"]]
        table.append(f"| {' | '.join([*names, rho, span])} | {row['p_adjusted']:.2f} |")
    before, terms, after, source = (
        _paragraph(text.format_map(texts)) for text in (BEFORE, TERMS, AFTER, SOURCE)
    )
    return "\n".join([BEGIN, before, "", *table, "", terms, "", after, "", source, END])


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
@click.option("--out", type=click.Path(path_type=Path), default=ROOT / "docs" / "demo_figures.json")
@click.option("--page", type=click.Path(path_type=Path), default=ROOT / "docs" / "quickstart.md")
def main(
    first_run: float | None,
    setup: float | None,
    second_run: float | None,
    out: Path,
    page: Path,
) -> None:
    """Write the figures of this checkout's finished demo to JSON and to the quickstart page."""
    before = json.loads(out.read_text("utf-8"))["seconds"] if out.exists() else {}
    given = {"first_run": first_run, "setup": setup, "second_run": second_run}
    seconds = before | {name: value for name, value in given.items() if value is not None}
    figures = demo_figures(find_workspace()) | {"seconds": seconds}
    out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    page.write_text(with_figures(page.read_text("utf-8"), figures), encoding="utf-8")
    click.echo(f"written {out} and {page}")


if __name__ == "__main__":
    main()
