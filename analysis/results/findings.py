"""`docs/findings.md`: a template filled with committed figures; no number stands in the code."""

from __future__ import annotations

import glob
import json
from pathlib import Path
from typing import Any

import duckdb

from analysis.templates import environment
from warehouse.errors import StorageError
from warehouse.paths import Workspace

READINGS = Path("docs") / "e2lm_readings.json"
LONGER = Path("benchmarks") / "longer_documents.json"
PAGE = Path("docs") / "findings.md"
PREDICTED = "7B-1x"
"""The size that DCLM's smaller ones predict."""
ENOUGH = (0.8, 0.85, 0.9)
"""Decision accuracies for which the earliest stage is sought."""


def findings_page(workspace: Workspace, figures: dict[str, Any] | None) -> str:
    """The page, from what is committed alone.

    Args:
        workspace: the checkout.
        figures: of `study`; None says that it was not run yet.

    Raises:
        StorageError: a committed file is missing or can't be read.
    """
    readings = readings_of(workspace)
    longer = workspace.root / LONGER
    pages = environment("analysis.results", escape_html=False)
    pages.filters |= {"signed": _signed, "share": _share, "time": _time, "spans": _spans}
    return pages.get_template("findings.md.j2").render(
        figures=figures,
        longer=_json(longer) if longer.is_file() else None,
        readings=readings,
        saved=readings_saved(readings),
        compute=compute_shares(workspace),
        enough=ENOUGH,
        registered=_registered(workspace, "minilong"),
        locked=_registered(workspace, "no4k"),
    )


def _registered(workspace: Workspace, problem: str) -> list[dict[str, Any]]:
    path = workspace.preregistered / f"{problem}.json"
    found: list[dict[str, Any]] = _json(path)["entries"] if path.is_file() else []
    return found


def readings_of(workspace: Workspace) -> list[dict[str, Any]]:
    """What `tokenmart e2lm readings` committed.

    Raises:
        StorageError: the file is missing or can't be read.
    """
    found: list[dict[str, Any]] = _json(workspace.root / READINGS)
    return found


def readings_saved(readings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Per problem and reading, the earliest stage that decides well enough, of each of `ENOUGH`.

    None where no stage that was looked at does.

    Args:
        readings: of `tokenmart e2lm readings`.
    """
    found = []
    for problem in readings:
        names = dict.fromkeys(r["reading"] for s in problem["stages"] for r in s["readings"])
        for name in names:
            by_stage = {
                stage["stage"]: reading["decision_accuracy"]
                for stage in problem["stages"]
                for reading in stage["readings"]
                if reading["reading"] == name
            }
            first = [next((s for s, a in by_stage.items() if a >= least), None) for least in ENOUGH]
            found.append(
                {
                    "problem": problem["problem"],
                    "reading": name,
                    "is_target": name == problem["target"],
                    "first": first,
                    "stages": by_stage,
                }
            )
    return found


def compute_shares(workspace: Workspace) -> dict[str, float]:
    """DCLM's sizes → compute of their training, as a share of that of the size they predict.

    FLOPs of training are about 6 × parameters × tokens (Kaplan et al. 2020); the median run of a
    size stands for it.

    Raises:
        StorageError: the committed table can't be read.
    """
    path = workspace.root / "data" / "published" / "dclm.parquet"
    try:
        rows = duckdb.execute(
            "select size, median(parameters * tokens) from (select distinct model, size,"
            " parameters, tokens from read_parquet(?, hive_partitioning = false))"
            " where size is not null group by size order by size",
            [glob.escape(str(path))],
        ).fetchall()
    except duckdb.Error as error:
        raise StorageError(f"{path}: can't be read ({error}); restore it from git") from error
    flops = dict(rows)
    return {size: value / flops[PREDICTED] for size, value in flops.items()}


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise StorageError(f"{path}: can't be read ({error}); restore it from git") from error


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}".replace("-", "−")


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}%"


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _spans(numbers: list[int]) -> str:
    """Sorted numbers, those in a row as one span."""
    runs: list[list[int]] = []
    for each in numbers:
        if runs and each == runs[-1][-1] + 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
