"""Details of lighteval: `details_<task>_<time>.parquet`, a row for each document.

The column `metric` (older versions: `metrics`) has the document's values by name. The aggregates
lie in `results/<model>/results_<time>.json` where details lie in `details/<model>/<time>/`
(github.com/huggingface/lighteval).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from plugins.benchmarks.scores.own_aggregates import (
    aggregate_beside,
    chosen_metric,
    item_score,
    refuse_other_mean,
)
from warehouse.errors import TokenmartError
from warehouse.importers.importer import Importer, Row

_NAME = re.compile(r"details_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]+)\.parquet")
_COLUMNS = ("metric", "metrics")


class LightevalImporter(Importer):
    """Metrics of documents: `--metric acc`; the item is the document's place in the file."""

    kind = "lighteval"

    def read(self, path: Path) -> Iterator[Row]:
        """The documents of one task.

        Raises:
            TokenmartError: no file of details, no such metric, or another mean than lighteval's.
        """
        named = _NAME.fullmatch(path.name)
        if named is None:
            raise TokenmartError(
                f"{path}: expected a name such as details_TASK_2025-03-04T10-11-12.123456.parquet; "
                "give the file as lighteval wrote it"
            )
        metrics = _metrics(path)
        names = sorted(name for name, value in metrics[0].items() if value is not None)
        metric = chosen_metric(path, names, self.metric, None)
        task = named["task"]
        rows = [
            Row(place, {"task": task, "item": item, "score": item_score(place, values, metric)})
            for item, values in enumerate(metrics)
            if (place := f"{path}: row {item + 1}")
        ]
        beside = _results(path, named["time"])
        means = aggregate_beside(beside).get("results", {}).get(task, {})
        refuse_other_mean(
            path, beside, metric, [r.fields["score"] for r in rows], means.get(metric)
        )
        yield from rows


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
    # older versions wrote each object as text
    values = [json.loads(each) if isinstance(each, str) else each for each in found]
    if not values or not all(isinstance(each, dict) for each in values):
        raise TokenmartError(f"{path}: {column} contains no metrics by name; correct the file")
    return values


def _results(path: Path, time: str) -> Path:
    """Where lighteval writes the aggregates of details."""
    folder = path.resolve().parent
    for parent in folder.parents:
        if parent.name == "details":
            model = folder.parent.relative_to(parent)
            return parent.with_name("results") / model / f"results_{time}.json"
    return path.with_name(f"results_{time}.json")
