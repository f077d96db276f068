"""Predictions of OLMES (oe-eval, olmo-eval): `task-000-arc_easy-predictions.jsonl`.

A line is a document with its `metrics`; `…-metrics.json` in the same folder has the task's name,
its primary metric and their means (github.com/allenai/olmes).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plugins.benchmarks.scores.own_aggregates import (
    aggregate_beside,
    chosen_metric,
    item_score,
    refuse_other_mean,
)
from warehouse.errors import TokenmartError
from warehouse.importers.importer import Importer, Row
from warehouse.text_file import parse_json, text_lines

_NAME = re.compile(r"(?:task-\d+-)?(?P<task>.+)-predictions\.jsonl")


class OlmesImporter(Importer):
    """Metrics of documents: `--metric acc_per_char`; the task's primary metric by default."""

    kind = "olmes"

    def read(self, path: Path) -> Iterator[Row]:
        """The documents of one task.

        Raises:
            TokenmartError: no file of predictions, no such metric, or another mean than OLMES's.
        """
        named = _NAME.fullmatch(path.name)
        if named is None:
            raise TokenmartError(
                f"{path}: expected a name such as task-000-arc_easy-predictions.jsonl; rename it"
            )
        beside = path.with_name(path.name.removesuffix("-predictions.jsonl") + "-metrics.json")
        own = aggregate_beside(beside)
        lines = list(_lines(path))
        if not lines:
            raise TokenmartError(f"{path}: contains no prediction")
        names = sorted(
            name
            for name, value in lines[0][1]["metrics"].items()
            if isinstance(value, bool | int | float)
        )
        primary = own.get("task_config", {}).get("primary_metric")
        metric = chosen_metric(path, names, self.metric, primary)
        task = str(own.get("task_name") or named["task"])
        rows = [
            Row(place, {"task": task, "item": line["doc_id"],
                        "score": item_score(place, line["metrics"], metric)})
            for place, line in lines
        ]  # fmt: skip
        means = own.get("metrics", {})
        refuse_other_mean(
            path, beside, metric, [r.fields["score"] for r in rows], means.get(metric)
        )
        yield from rows


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, text in text_lines(path):
        line = parse_json(text, place)
        if not isinstance(line, dict) or not isinstance(line.get("metrics"), dict):
            raise TokenmartError(f"{place}: has no object 'metrics'; is it OLMES's file?")
        if "doc_id" not in line:
            raise TokenmartError(f"{place}: 'doc_id' is missing; correct the line")
        yield place, line
