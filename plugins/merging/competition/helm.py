"""Convert HELM's output to a table of results: summary tables, or the `stats.json` of runs.

A summary table (`groups/….json`) has a header whose cells state whether lower is better, and a
row for each model; each table is a group: accuracy, robustness, fairness. In `stats.json`,
perturbed values have the name of the perturbation, which becomes their group. Formats:
github.com/stanford-crfm/helm.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plugins.benchmarks.scores.metric_directions import direction_of
from warehouse.errors import TokenmartError
from warehouse.text_file import parse_json, read_text

HEADER = ("entry", "task_group", "task", "metric", "direction", "value")
PLAIN = "unperturbed"
"""Group of values of `stats.json` without a perturbation."""

_AGGREGATES = ("mean win rate", "median win rate", "mean score")
_SPLITS = ("test", "valid")

Result = tuple[str, str, str, str, str, Any]
Placed = tuple[str, Result]
"""A place in HELM's files, for messages, and what is there."""


@contextmanager
def plain_results(path: Path, metrics: Sequence[str] = ()) -> Iterator[Path]:
    """The path of a plain table of results; HELM's output is converted, other files are kept.

    Args:
        path: a plain table, a JSON file of summary tables, or a folder of runs.
        metrics: metrics of runs to rank by.

    A column of HELM's tables that states no direction gets the direction none.

    Raises:
        TokenmartError: a file is none of HELM's, no metric is named, or a result is given twice.
    """
    if path.is_dir():
        rows = _once(path, _of_runs(path, metrics))
    elif path.suffix.lower() == ".json":
        rows = _once(path, _of_tables(path))
    else:
        if metrics:
            raise TokenmartError("--metric is for a folder of HELM's runs; leave it out")
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / f"{path.stem}.csv"
        with table.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([HEADER, *rows])
        try:
            yield table
        except TokenmartError as error:  # the file that the user has, not this one
            raise TokenmartError(error.message.replace(str(table), str(path))) from error


def _once(path: Path, placed: Iterable[Placed]) -> list[Result]:
    """The results; one that is there twice is refused by its places."""
    seen: dict[tuple[str, ...], str] = {}
    rows = []
    for place, row in _in_form(path, placed):
        entry, group, task, metric, *_ = row
        if (before := seen.setdefault((entry, group, task, metric), place)) is not place:
            raise TokenmartError(
                f"{path}: {before} and {place} both give {metric} of {entry} on {task} (group "
                f"{group}); leave one out"
            )
        rows.append(row)
    if not rows:
        raise TokenmartError(f"{path}: contains no result; give a file of HELM's groups/, or runs")
    return rows


def _in_form(path: Path, placed: Iterable[Placed]) -> Iterator[Placed]:
    """The same, with one line for files in another form."""
    try:
        yield from placed
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise TokenmartError(
            f"{path}: not in the form of HELM's files ({type(error).__name__}: {error}); give a "
            "file of groups/ or a folder of runs as HELM wrote them, or a plain table"
        ) from error


def _of_tables(path: Path) -> Iterator[Placed]:
    found = parse_json(read_text(path), str(path))
    tables = found if isinstance(found, list) else [found]
    if not tables or not all(isinstance(t, dict) and "header" in t and "rows" in t for t in tables):
        raise TokenmartError(
            f"{path}: has no tables with 'header' and 'rows'; give a file of HELM's groups/, or "
            "a plain table"
        )
    ranked = 0
    for table in tables:
        title = str(table.get("title") or table.get("name") or path.stem)
        for place, head in enumerate(table["header"]):
            name = str(head.get("value"))
            lower = head.get("lower_is_better")
            if place == 0 or name.lower() in _AGGREGATES:
                continue
            ranked += lower is not None
            facts = head.get("metadata") or {}
            metric = name.rpartition(" - ")[2]
            task = str(facts.get("run_group") or name.rpartition(" - ")[0] or title)
            for number, row in enumerate(table["rows"], start=1):
                if len(row) != len(table["header"]):
                    raise TokenmartError(
                        f"{path}: table {title!r} has a row of {len(row)} cells under "
                        f"{len(table['header'])} headings; copy the file again"
                    )
                value, entry = row[place].get("value"), str(row[0].get("value"))
                where = f"row {number}, column {place + 1} of table {title!r}"
                if isinstance(value, bool) or not isinstance(value, int | float | None):
                    if lower is None:
                        continue  # such as a description
                    raise TokenmartError(
                        f"{path}: {where}: {name} of {entry} is {value!r}, expected a number; "
                        "correct it"
                    )
                direction = "none" if lower is None else "lower" if lower else "higher"
                shown = "" if value is None else repr(value)
                yield where, (entry, title, task, metric, direction, shown)
    if not ranked:
        raise TokenmartError(
            f"{path}: no column states whether lower is better, so nothing is ranked; give a file "
            "of HELM's groups/"
        )


def _of_runs(folder: Path, metrics: Sequence[str]) -> Iterator[Placed]:
    runs = sorted(path.parent for path in folder.rglob("stats.json"))
    if not runs:
        raise TokenmartError(f"{folder}: contains no stats.json of HELM's runs; correct the path")
    known: set[str] = set()
    for run in runs:
        spec = parse_json(read_text(run / "run_spec.json"), str(run / "run_spec.json"))
        stats = parse_json(read_text(run / "stats.json"), str(run / "stats.json"))
        adapter = spec["adapter_spec"]
        entry = str(adapter.get("model") or adapter["model_deployment"])
        task, split = _task(str(spec["name"])), _split(stats)
        if split not in (None, _SPLITS[0]):
            task = f"{task} ({split})"  # not to be compared with a test split
        values = list(_values(stats, split))
        known |= {metric for metric, *_ in values}
        for metric, group, value in values:
            if metric in metrics:
                direction = direction_of(metric)
                if direction is None:
                    raise TokenmartError(
                        f"--metric {metric}: its name doesn't show whether lower is better; use "
                        "HELM's summarised tables (groups/….json) instead"
                    )
                yield str(run), (entry, group, task, f"{metric} ({group})", direction, value)
    missing = [name for name in metrics if name not in known]
    if missing or not metrics:
        names = sorted(name for name in known if direction_of(name))
        raise TokenmartError(
            f"{'--metric ' + missing[0] + ': not in' if missing else 'name with --metric what'} "
            f"{folder}{'' if missing else ' is ranked by'}; its metrics: {', '.join(names)}"
        )


def _task(name: str) -> str:
    """A run's name without its model: `mmlu:subject=philosophy`."""
    scenario, _, arguments = name.partition(":")
    kept = [each for each in arguments.split(",") if each and not each.startswith("model")]
    return f"{scenario}:{','.join(kept)}" if kept else scenario


def _split(stats: Iterable[dict[str, Any]]) -> str | None:
    """The split whose values count: test, else valid; None where there is neither."""
    splits = {each["name"].get("split") for each in stats if "sub_split" not in each["name"]}
    return next((name for name in _SPLITS if name in splits), None)


def _values(stats: Iterable[dict[str, Any]], split: str | None) -> Iterator[tuple[str, str, str]]:
    """Metric, group and value of a run's statistics on a split."""
    for each in stats:
        name, perturbation = each["name"], each["name"].get("perturbation") or {}
        if "sub_split" in name or name.get("split") != split:
            continue
        # of a perturbation, what HELM ranks by is the worst of an item's variants
        if perturbation.get("computed_on", "worst") != "worst":
            continue
        value = each["mean"] if each.get("count") else None
        yield name["name"], perturbation.get("name", PLAIN), "" if value is None else repr(value)
