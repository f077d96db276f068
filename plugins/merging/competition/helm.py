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


@contextmanager
def plain_results(path: Path, metrics: Sequence[str] = ()) -> Iterator[Path]:
    """The path of a plain table of results; HELM's output is converted, other files are kept.

    Args:
        path: a plain table, a JSON file of summary tables, or a folder of runs.
        metrics: metrics of runs to rank by.

    Raises:
        TokenmartError: a file is not from HELM, or no metric is given.
    """
    if path.is_dir():
        rows = list(_of_runs(path, metrics))
    elif path.suffix.lower() == ".json":
        rows = list(_of_tables(path))
    else:
        if metrics:
            raise TokenmartError("--metric is for a folder of HELM's runs; leave it out")
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / f"{path.stem}.csv"
        with table.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([HEADER, *rows])
        yield table


def _of_tables(path: Path) -> Iterator[Result]:
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
            if place == 0 or lower is None or name.lower() in _AGGREGATES:
                continue
            ranked += 1
            facts = head.get("metadata") or {}
            metric = name.rpartition(" - ")[2]
            task = str(facts.get("run_group") or name.rpartition(" - ")[0] or title)
            for row in table["rows"]:
                if len(row) != len(table["header"]):
                    raise TokenmartError(
                        f"{path}: table {title!r} has a row of {len(row)} cells under "
                        f"{len(table['header'])} headings; copy the file again"
                    )
                value = row[place].get("value")
                direction = "lower" if lower else "higher"
                yield (
                    str(row[0].get("value")), title, task, metric, direction,
                    "" if value is None else repr(value),
                )  # fmt: skip
    if not ranked:
        raise TokenmartError(
            f"{path}: no column states whether lower is better, so nothing is ranked; give a file "
            "of HELM's groups/"
        )


def _of_runs(folder: Path, metrics: Sequence[str]) -> Iterator[Result]:
    runs = sorted(path.parent for path in folder.rglob("stats.json"))
    if not runs:
        raise TokenmartError(f"{folder}: contains no stats.json of HELM's runs; correct the path")
    known: set[str] = set()
    for run in runs:
        spec = parse_json(read_text(run / "run_spec.json"), str(run / "run_spec.json"))
        stats = parse_json(read_text(run / "stats.json"), str(run / "stats.json"))
        adapter = spec["adapter_spec"]
        entry = str(adapter.get("model") or adapter["model_deployment"])
        task = _task(str(spec["name"]))
        values = list(_values(stats))
        known |= {metric for metric, *_ in values}
        for metric, group, value in values:
            if metric in metrics:
                direction = direction_of(metric)
                if direction is None:
                    raise TokenmartError(
                        f"--metric {metric}: its name doesn't show whether lower is better; use "
                        "HELM's summarised tables (groups/….json) instead"
                    )
                yield entry, group, task, f"{metric} ({group})", direction, value
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


def _values(stats: Iterable[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Metric, group and value of a run's statistics, for the test split if there is one."""
    named = [each for each in stats if "sub_split" not in each["name"]]
    splits = {each["name"].get("split") for each in named}
    split = next((name for name in _SPLITS if name in splits), None)
    for each in named:
        name, perturbation = each["name"], each["name"].get("perturbation") or {}
        # HELM ranks perturbations by the worst of an item's variants
        if name.get("split") != split or perturbation.get("computed_on", "worst") != "worst":
            continue
        value = each["mean"] if each.get("count") else None
        yield name["name"], perturbation.get("name", PLAIN), "" if value is None else repr(value)
