"""Import samples that lm-evaluation-harness writes with --log_samples, as target scores.

There is one file per task. A sample is one document after one answer filter, with the names and
values of its metrics (`sample_files`). RULER's tasks name their metrics by context length, with the
value -1 for all lengths but the document's own; each length becomes a separate task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plugins.benchmarks.harness.eval_answer import run_name
from plugins.benchmarks.harness.imports.measured import Measure, MeasuredImporter
from plugins.benchmarks.harness.imports.sample_files import (
    facts_beside,
    metrics_of,
    model_of,
    read_samples,
    task_of,
)
from plugins.benchmarks.scores.metric_directions import direction_of
from warehouse.errors import TokenmartError
from warehouse.importers.importer import Row


@dataclass(frozen=True)
class _Sample:
    """One line without its texts; `length` is the context length of a RULER document, in tokens."""

    place: str
    item: Any
    filter: str
    metrics: dict[str, Any]
    length: int | None


class LmEvalImporter(MeasuredImporter):
    """Metrics of samples: `--metric acc`, or with a filter `--metric exact_match,strict-match`."""

    kind = "lm-eval"

    def read(self, path: Path) -> Iterator[Row]:
        """The samples of one task.

        Raises:
            TokenmartError: not a sample file, or the metric or filter is ambiguous.
        """
        name = task_of(path)
        metric, samples = self._chosen(path)
        for sample in samples:
            task, key = name, metric
            if sample.length is not None:
                task, key = f"{task}_{sample.length}", str(sample.length)
            if key not in sample.metrics:
                raise TokenmartError(
                    f"{sample.place}: no metric {key!r}; use --metric with one of: "
                    f"{', '.join(sample.metrics)}"
                )
            fields = {"task": task, "item": sample.item, "score": sample.metrics[key]}
            yield Row(sample.place, {**fields, "context_tokens": sample.length})

    def model(self, path: Path) -> str | None:
        """The checkpoint that the file of results next to the samples names."""
        return model_of(path)

    def measures(self, path: Path) -> dict[str, Measure]:
        """The metric, and from the file of results next to the samples how the task was run."""
        task = task_of(path)
        metric, samples = self._chosen(path)
        facts = facts_beside(path, task)
        higher = facts.better.get(metric)
        lower = direction_of(metric) == "lower" if higher is None else not higher
        run = [*filter(None, [run_name(facts.shots, facts.chat)])]
        run += [] if facts.version is None else [f"version {facts.version}"]
        filters = "".join(sorted({f",{sample.filter}" for sample in samples} - {",none"}))
        lengths = {each.length for each in samples}
        tasks = [task if length is None else f"{task}_{length}" for length in lengths]
        return {each: Measure(metric + filters, lower, ", ".join(run)) for each in tasks}

    def _chosen(self, path: Path) -> tuple[str, list[_Sample]]:
        """The metric to import, empty for RULER's, and the samples that have it."""
        metric, _, filter_name = (self.metric or "").partition(",")
        samples = [_sample(*each) for each in read_samples(path)]
        samples = _of_one_filter(path, samples, filter_name)
        return metric or _only_metric(path, samples), samples


def _sample(place: str, content: dict[str, Any]) -> _Sample:
    metrics = metrics_of(content)
    doc = content.get("doc")
    length = doc.get("max_length") if isinstance(doc, dict) else None
    return _Sample(
        place=place,
        item=content["doc_id"],
        filter=str(content["filter"]),
        metrics=metrics,
        length=length if isinstance(length, int) and str(length) in metrics else None,
    )


def _of_one_filter(path: Path, samples: list[_Sample], wanted: str) -> list[_Sample]:
    """Samples after one answer filter: the given one, or the only one."""
    filters = sorted({sample.filter for sample in samples})
    if wanted and wanted not in filters:
        raise TokenmartError(
            f"--metric: {path} has no filter {wanted!r}; its filters are {', '.join(filters)}"
        )
    if not wanted and len(filters) > 1:
        metric = next(iter(samples[0].metrics), "")
        choices = ", ".join(f"--metric {metric},{name}" for name in filters)
        raise TokenmartError(f"{path}: answers were filtered in several ways; use one of {choices}")
    return [sample for sample in samples if not wanted or sample.filter == wanted]


def _only_metric(path: Path, samples: list[_Sample]) -> str:
    """The metric of all samples; for samples of RULER it is their length."""
    plain = [sample for sample in samples if sample.length is None]
    found = sorted({metric for sample in plain for metric in sample.metrics})
    if plain and len(found) != 1:
        raise TokenmartError(
            f"{path}: contains {len(found)} metrics; use --metric with one of: {', '.join(found)}"
        )
    return found[0] if found else ""
