"""Predictions of OLMES (oe-eval) and olmo-eval: a line for each document, with its metrics.

OLMES writes `task-000-arc_easy-predictions.jsonl`, with `metrics` by name; `…-metrics.json` in the
same folder has the task's name, its primary metric and the means (github.com/allenai/olmes).
olmo-eval writes `predictions/<model>/<task>_<hash>-predictions.jsonl`, with `instance_metrics` by
metric and scorer, here `metric:scorer`; `metrics.json` two folders above has all tasks
(github.com/allenai/olmo-eval). Run with OLMES 0.1.0 and olmo-eval 1.0.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plugins.benchmarks.harness.eval_answer import run_name
from plugins.benchmarks.harness.imports.measured import Measure, MeasuredImporter, named_model
from plugins.benchmarks.scores.metric_directions import direction_of
from plugins.benchmarks.scores.own_aggregates import (
    chosen_metric,
    is_number,
    item_score,
    read_aggregate,
    refuse_other_count,
    refuse_other_mean,
)
from warehouse.errors import TokenmartError
from warehouse.importers.importer import Row
from warehouse.text_file import parse_json, text_lines

_NAME = re.compile(r"(?:task-\d+-)?(?P<task>.+)-predictions\.jsonl")
_HASH = re.compile(r"(?P<task>.+)_(?P<hash>[0-9a-f]{6})")


@dataclass(frozen=True)
class _Own:
    """The program's own aggregates of a task, and their file; empty if there is none."""

    summary: Path
    task: str
    items: Any = None
    primary: str | None = None
    means: Mapping[str, Any] = field(default_factory=dict)
    model: str | None = None
    run: str = ""


class OlmesImporter(MeasuredImporter):
    """Metrics of documents: `--metric acc_per_char`; the task's primary metric by default."""

    kind = "olmes"

    def read(self, path: Path) -> Iterator[Row]:
        """The documents of one task.

        Raises:
            TokenmartError: the file has no predictions or no such metric, or the mean differs from
                that of the program.
        """
        lines, own, documents, metric = self._chosen(path)
        rows = [
            Row(place, {"task": own.task, "item": line["doc_id"],
                        "score": item_score(place, values, metric)})
            for (place, line), values in zip(lines, documents, strict=True)
        ]  # fmt: skip
        refuse_other_count(path, own.summary, len(rows), own.items)
        scores = [row.fields["score"] for row in rows]
        refuse_other_mean(path, own.summary, metric, scores, own.means.get(metric))
        yield from rows

    def model(self, path: Path) -> str | None:
        """Name and revision of the model in the file of metrics."""
        return self._chosen(path)[1].model

    def measures(self, path: Path) -> dict[str, Measure]:
        """The metric and few-shot examples; olmo-eval's metric has its scorer behind a colon."""
        _, own, _, metric = self._chosen(path)
        # `_corr` is OLMES' suffix for a value of the correct choice
        lower = direction_of(metric.partition(":")[0].removesuffix("_corr")) == "lower"
        return {own.task: Measure(metric, lower, own.run)}

    def _chosen(
        self, path: Path
    ) -> tuple[list[tuple[str, dict[str, Any]]], _Own, list[dict[str, Any]], str]:
        """The lines, the program's own account, the values of each line, and the metric."""
        named = _NAME.fullmatch(path.name)
        if named is None:
            raise TokenmartError(
                f"{path}: expected a name such as task-000-arc_easy-predictions.jsonl; rename it"
            )
        lines = list(_lines(path))
        if not lines:
            raise TokenmartError(f"{path}: contains no prediction")
        nested = "instance_metrics" in lines[0][1]
        own = _of_olmo_eval(path, named["task"]) if nested else _of_olmes(path, named["task"])
        documents = [_flat(line) for _, line in lines]
        names = _names(documents, own.means, self.metric)
        metric = chosen_metric(path, names, self.metric, own.primary)
        return lines, own, documents, metric


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, text in text_lines(path):
        line = parse_json(text, place)
        if not isinstance(line, dict) or not any(
            isinstance(line.get(name), dict) for name in ("metrics", "instance_metrics")
        ):
            raise TokenmartError(
                f"{place}: has no object 'metrics' or 'instance_metrics'; is it a file of OLMES or "
                "olmo-eval?"
            )
        if "doc_id" not in line:
            raise TokenmartError(f"{place}: 'doc_id' is missing; correct the line")
        yield place, line


def _flat(line: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a line by name; those of olmo-eval as `metric:scorer`."""
    if isinstance(line.get("metrics"), dict):
        return dict(line["metrics"])
    return _by_scorer(line["instance_metrics"])


def _by_scorer(metrics: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for metric, scorers in metrics.items() if isinstance(metrics, dict) else ():
        if isinstance(scorers, dict):
            found |= {f"{metric}:{scorer}": value for scorer, value in scorers.items()}
        else:
            found[f"{metric}:{metric}"] = scorers
    return found


def _names(
    documents: Sequence[Mapping[str, Any]], means: Mapping[str, Any], wanted: str | None
) -> list[str]:
    """Metrics of documents that have an aggregate; all numbers, if a metric is given.

    A document also has numbers that are not scores, such as the index of the chosen answer.
    """
    names = {name for each in documents for name, value in each.items() if is_number(value)}
    return sorted(names if wanted in names else names & means.keys() or names)


def _of_olmes(path: Path, task: str) -> _Own:
    summary = path.with_name(path.name.removesuffix("-predictions.jsonl") + "-metrics.json")
    found = read_aggregate(summary)
    means, config = found.get("metrics", {}), found.get("task_config") or {}
    return _Own(
        summary=summary,
        task=str(found.get("task_name") or task),
        items=found.get("num_instances"),
        primary=config.get("primary_metric"),
        means={**means, **(means.get("extra_metrics") or {})},
        model=named_model(found.get("model_config") or {}, "model", "revision", "model_path"),
        run=run_name(config.get("num_shots"), chat=""),
    )


def _of_olmo_eval(path: Path, name: str) -> _Own:
    """The entry of the task; if several models have one, that of the folder's model.

    Raises:
        TokenmartError: `metrics.json` can't be read, or has no entry or several of this task.
    """
    hashed = _HASH.fullmatch(name)
    task, ending = (hashed["task"], hashed["hash"]) if hashed else (name, "")
    folder = path.resolve().parent
    summary = folder.parent.parent / "metrics.json"
    tasks = read_aggregate(summary).get("tasks")
    if tasks is None:
        return _Own(summary, task)
    found = [
        each
        for each in tasks
        if _in_file_name(each["task"]) == task
        and str(each.get("task_hash") or "").endswith(ending)
        and (each.get("model") is None or _in_file_name(each["model"]) == folder.name)
    ]
    if len(found) != 1:
        raise TokenmartError(
            f"{summary}: has {len(found)} entries of {name}, expected one; give the file of "
            "predictions in the folder where olmo-eval wrote it"
        )
    (entry,) = found
    return _Own(
        summary=summary,
        task=str(entry["task"]),
        items=entry.get("num_instances"),
        primary=entry.get("primary_metric"),
        means=_by_scorer(entry.get("metrics")),
        model=named_model(entry, "model"),
    )


def _in_file_name(name: str) -> str:
    return re.sub(r"[:/\\ ]", "_", name)
