"""Details of lighteval: `details_<task>_<time>.parquet`, a row for each document.

The column `metric` (before 0.9: `metrics`) has the document's values by name. Before 0.9, a task
with metrics of several request types has a row for each document and type, with the values of that
type. The aggregates are in `results/<model>/results_<time>.json` if the details are in
`details/<model>/<time>/`. On the hub, and if the model is an absolute path, they are in the folder
above `<time>` (github.com/huggingface/lighteval; tested with 0.8.1 and 0.13.0).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from plugins.benchmarks.harness.imports.measured import Measure, MeasuredImporter, named_model
from plugins.benchmarks.scores.metric_directions import direction_of
from plugins.benchmarks.scores.own_aggregates import (
    chosen_metric,
    is_number,
    item_score,
    read_aggregate,
    refuse_lower,
    refuse_other_mean,
)
from warehouse.errors import TokenmartError
from warehouse.importers.importer import Row

_NAME = re.compile(r"details_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)\.parquet")
_COLUMNS = ("metric", "metrics")


class LightevalImporter(MeasuredImporter):
    """Metrics of documents: `--metric acc`; the item is the number of the document in the file.

    lighteval shuffles documents with a fixed seed, so a number is the same document for all models.
    """

    kind = "lighteval"

    def read(self, path: Path) -> Iterator[Row]:
        """The documents of one task.

        Raises:
            TokenmartError: the file has no details or no such metric, or the mean differs from
                lighteval's.
        """
        named = _named(path)
        metrics = _metrics(path)
        metric = chosen_metric(path, _averaged(path, metrics, self.metric), self.metric, None)
        task = named["task"]
        scored = _of_metric(path, metrics, metric)
        rows = [
            Row(place, {"task": task, "item": item, "score": item_score(place, values, metric)})
            for item, (row, values) in enumerate(scored)
            if (place := f"{path}: row {row}")
        ]
        summary = _results(path, named["time"])
        own = read_aggregate(summary)
        if _is_lower(own, task, metric):
            refuse_lower(summary, metric)
        means = _of_task(own.get("results"), task)
        mean = means.get(metric) if isinstance(means, dict) else None
        refuse_other_mean(path, summary, metric, [r.fields["score"] for r in rows], mean)
        yield from rows

    def model(self, path: Path) -> str | None:
        """Name and commit of the model in the file of results."""
        general = read_aggregate(_results(path, _named(path)["time"])).get("config_general")
        own = general if isinstance(general, dict) else {}
        return named_model(own, "model_name", "model_sha")

    def measures(self, path: Path) -> dict[str, Measure]:
        """The metric and the task's version; a task's name has its few-shot examples."""
        names = _averaged(path, _metrics(path), self.metric)
        metric = chosen_metric(path, names, self.metric, None)
        named = _named(path)
        versions = read_aggregate(_results(path, named["time"])).get("versions")
        version = _of_task(versions, named["task"])
        run = "" if version is None else f"version {version}"
        return {named["task"]: Measure(metric, direction_of(metric) == "lower", run)}


def _of_metric(
    path: Path, metrics: Sequence[dict[str, Any]], metric: str
) -> list[tuple[int, dict[str, Any]]]:
    """The rows, counted from 1, of the type of request that has this metric.

    Raises:
        TokenmartError: a row of this type has no value: later items would get wrong numbers.
    """
    scored = [(row, values) for row, values in enumerate(metrics, 1) if metric in _has(values)]
    of_type = {name for _, values in scored for name in _has(values)}
    for row, values in enumerate(metrics, 1):
        if metric not in _has(values) and (not _has(values) or of_type & set(_has(values))):
            raise TokenmartError(
                f"{path}: row {row} has no value of {metric}, others have; fetch the file again, "
                "or leave this task out"
            )
    return scored


def _named(path: Path) -> re.Match[str]:
    """Task and time in the name of a file of details."""
    named = _NAME.fullmatch(path.name)
    if named is None:
        raise TokenmartError(
            f"{path}: expected a name such as details_TASK_2025-03-04T10-11-12.123456.parquet; "
            "give the file as lighteval wrote it"
        )
    return named


def _of_task(part: Any, task: str) -> Any:
    """Entry of a task in a part of the results, by its name in a file's: on the hub `|` is `_`."""
    for name, entry in part.items() if isinstance(part, dict) else ():
        if task in (name, re.sub(r"[|:]", "_", name)):
            return entry
    return None


def _metrics(path: Path) -> list[dict[str, Any]]:
    try:
        schema = pq.read_schema(path)
        column = next((name for name in _COLUMNS if name in schema.names), None)
        if column is None:
            raise TokenmartError(
                f"{path}: no column 'metric'; is it a file of lighteval's details?"
            )
        found = pq.read_table(path, columns=[column])[column].to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise TokenmartError(f"{path}: can't be read ({error}); fetch it again") from error
    # older versions wrote each object as JSON text
    values = [json.loads(each) if isinstance(each, str) else each for each in found]
    if not values or not all(isinstance(each, dict) for each in values):
        raise TokenmartError(f"{path}: {column} contains no metrics by name; correct the file")
    return values


def _has(values: dict[str, Any]) -> list[str]:
    return [name for name, value in values.items() if value is not None]


def _averaged(path: Path, metrics: Sequence[dict[str, Any]], wanted: str | None) -> list[str]:
    """Metrics with a number for each document.

    Raises:
        TokenmartError: the given metric, or every metric, is computed from all documents together.
    """
    numbers = sorted({name for each in metrics for name in each if is_number(each[name])})
    others = sorted({name for each in metrics for name in _has(each)} - {*numbers})
    if wanted in others or not numbers:
        named = wanted if wanted in others else ", ".join(others)
        hint = f"use --metric with one of: {', '.join(numbers)}" if numbers else "leave it out"
        raise TokenmartError(
            f"{path}: {named}: lighteval computes no value for each document, only one for all of "
            f"them together; {hint}"
        )
    return numbers


def _results(path: Path, time: str) -> Path:
    """Path of the file with the aggregates of these details; the first candidate if none exists."""
    folder, name = path.resolve().parent, f"results_{time}.json"
    places = [
        parent.with_name("results") / folder.parent.relative_to(parent) / name
        for parent in folder.parents
        if parent.name == "details"
    ]
    places += [folder.parent / name, folder / name]
    return next((place for place in places if place.is_file()), places[0])


def _is_lower(own: dict[str, Any], task: str, metric: str) -> bool:
    """Whether the results state that lower values of a metric are better."""
    tasks = own.get("config_tasks", {})
    # before 0.9 without the number of few-shot examples
    config = tasks.get(task) or tasks.get(task.rpartition("|")[0]) or {}
    for each in config.get("metrics") or config.get("metric") or ():
        if not isinstance(each, dict):
            continue
        higher = each.get("higher_is_better")
        if isinstance(higher, dict):
            higher = higher.get(metric)
        elif each.get("metric_name") != metric:
            continue
        if higher is False:
            return True
    return False
