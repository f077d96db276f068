"""Result files of lm-evaluation-harness (`results_<date>.json`), as rows of a plain table.

One file is one model, or one checkpoint of a run. The harness does not say which step that is: it
is read off the end of the checkpoint's name, subfolder or revision (`step1000`, `iter_0002000`,
`checkpoint-500`).
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warehouse.errors import TokenmartError

ScoreRow = dict[str, str | int | float | None]

FIELDS = ("model", "step", "benchmark", "metric", "direction", "score", "stderr")
"""Of a row, by the names of a plain table."""

_STEP = re.compile(r"[-_/]?(?:step|iter|iteration|checkpoint|global_step)[-_]?(\d+)$")


@dataclass(frozen=True)
class HarnessResults:
    """Rows in the columns `FIELDS`, sorted, and what a reader should know of them."""

    rows: tuple[ScoreRow, ...]
    notes: tuple[str, ...]

    def csv(self) -> str:
        """The plain table, as text."""
        text = io.StringIO()
        writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()


def read_results(paths: Sequence[Path]) -> HarnessResults:
    """The scores in result files, each file's own or, in folders, those at any depth.

    A benchmark is named with its worked examples (`arc_easy-0shot`), a metric with its filter
    unless that is `none` (`exact_match,strict-match`). Of several results for one checkpoint the
    latest counts, and a note says so.

    Raises:
        TokenmartError: no such file, no result file in a folder, or a file that is none.
    """
    files: set[Path] = set()
    for path in paths:
        found = sorted(path.rglob("results_*.json")) if path.is_dir() else [path]
        if not found:
            raise TokenmartError(
                f"{path}: no results_*.json in it; run the harness with --output_path, or name "
                "its files"
            )
        files.update(found)
    latest: dict[tuple[Any, ...], tuple[float, Path, ScoreRow]] = {}
    notes = []
    for file in sorted(files):
        tree = _tree(file)
        try:
            limit, date = float(tree["config"].get("limit") or 0), float(tree.get("date") or 0)
            own = tuple(_rows(file, tree))
        except (AttributeError, TypeError, ValueError) as error:
            raise _no_result(file, f"a part of it is not what it should be ({error})") from error
        if limit:
            notes.append(f"{file}: run with --limit {limit:g}, on a part of the items")
        replaced: set[Path] = set()
        for row in own:
            key = tuple(row[name] for name in ("model", "step", "benchmark", "metric"))
            before = latest.get(key)
            if before:
                replaced.add(min((before[0], before[1]), (date, file))[1])
            latest[key] = max(before or (-math.inf, file, row), (date, file, row), key=_when)
        notes += [f"{path}: a later file has results of the same checkpoint" for path in replaced]
    rows = (row for _, _, row in latest.values())
    ordered = sorted(rows, key=lambda row: [(row[n] is not None, row[n]) for n in FIELDS[:4]])
    return HarnessResults(tuple(ordered), tuple(notes))


def _when(result: tuple[float, Path, ScoreRow]) -> tuple[float, Path]:
    return result[:2]


def _tree(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise TokenmartError(f"{path}: no such file; correct the path")
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise TokenmartError(f"{path}: can't be read ({error}); run it again") from error
    whole = isinstance(tree, dict) and isinstance(tree.get("results"), dict)
    if not whole or not isinstance(tree.get("config"), dict):
        raise _no_result(path, "expected 'results' and 'config'")
    return dict(tree)


def _no_result(path: Path, why: str) -> TokenmartError:
    return TokenmartError(
        f"{path}: no result file of lm-evaluation-harness, {why}; name those that it wrote as "
        "results_….json"
    )


def _rows(path: Path, tree: dict[str, Any]) -> Iterator[ScoreRow]:
    model, step = _run(path, tree)
    for task, values in tree["results"].items():
        shots = (tree.get("n-shot") or {}).get(task)
        benchmark = task if shots is None else f"{task}-{shots}shot"
        better = (tree.get("higher_is_better") or {}).get(task) or {}
        for key, value in values.items():
            name, comma, chosen = key.partition(",")
            if not comma or name.endswith("_stderr"):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TokenmartError(f"{path}: {task}: {key} is {value!r}, expected a number")
            if not math.isfinite(value):
                raise TokenmartError(f"{path}: {task}: {key} is {value}, expected a finite number")
            stderr = values.get(f"{name}_stderr,{chosen}")
            known = isinstance(stderr, int | float) and math.isfinite(stderr)
            yield {
                "model": model,
                "step": step,
                "benchmark": benchmark,
                "metric": name if chosen == "none" else key,
                "direction": "lower" if better.get(name) is False else "higher",
                "score": value,
                "stderr": stderr if known else None,
            }


def _run(path: Path, tree: dict[str, Any]) -> tuple[str, int | None]:
    """The run's name, and the step of the checkpoint where its name tells."""
    name = tree.get("model_name")
    if not isinstance(name, str) or not name:
        raise TokenmartError(f"{path}: model_name is {name!r}, expected a name; add it")
    given = tree["config"].get("model_args") or {}
    if isinstance(given, str):
        given = dict(part.split("=", 1) for part in given.split(",") if "=" in part)
    for place in ("subfolder", "revision"):
        if found := _STEP.search(str(given.get(place) or "")):
            return name, int(found[1])
    name = name.rstrip("/")
    found = _STEP.search(name)
    return (name[: found.start()], int(found[1])) if found and found.start() else (name, None)
