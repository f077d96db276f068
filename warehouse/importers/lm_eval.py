"""Samples of lm-evaluation-harness, as it writes them with --log_samples.

One `samples_<task>_<date>.jsonl` a task; a line is one document under one answer filter, with the
names of its metrics and their values beside bookkeeping. RULER's tasks name their metrics by
context length, -1 at every length but the document's own; each length becomes a task of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warehouse.errors import TokenmartError
from warehouse.importers.interface import Importer, Row

_NAME = re.compile(r"samples_(?P<task>.+?)(_\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}(\.\d+)?)?\.jsonl")
_BOOKKEEPING = {
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics",
    "doc_hash", "prompt_hash", "target_hash",
}  # fmt: skip


class LmEvalImporter(Importer):
    """Per-sample metrics: `--metric acc`, or with a filter `--metric exact_match,strict-match`."""

    kind = "lm-eval"

    def read(self, path: Path) -> Iterator[Row]:
        """The samples of one task.

        Raises:
            TokenmartError: not a file of samples, or the metric or filter isn't clear.
        """
        name = _NAME.fullmatch(path.name)
        if name is None:
            raise TokenmartError(
                f"{path}: its name gives no task, expected samples_<task>_<date>.jsonl; rename it"
            )
        samples = list(_samples(path))
        metric, _, wanted = (self.metric or "").partition(",")
        chosen = _of_one_filter(path, samples, wanted)
        for place, sample in chosen:
            length = _length(sample)
            task = name["task"] if length is None else f"{name['task']}_{length}"
            key = metric if length is None or metric else str(length)
            key = key or _only_metric(path, samples)
            if key not in sample:
                raise TokenmartError(
                    f"{place}: no metric {key!r}; use --metric with one of: "
                    f"{', '.join(_metrics(sample))}"
                )
            fields = {"task": task, "item": sample["doc_id"], "score": sample[key]}
            yield Row(place, {**fields, "context_tokens": length})


def _samples(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and content of each line; log-likelihoods may be infinite, which Python reads."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                place = f"{path}:{number}"
                try:
                    sample = json.loads(line)
                except json.JSONDecodeError as error:
                    raise TokenmartError(
                        f"{place}: not JSON ({error.msg}); copy the file again"
                    ) from error
                if not isinstance(sample, dict) or "doc_id" not in sample:
                    raise TokenmartError(
                        f"{place}: no doc_id; expected samples of lm-evaluation-harness "
                        "(--log_samples)"
                    )
                yield place, sample
    except (OSError, UnicodeDecodeError) as error:
        raise TokenmartError(f"{path}: can't be read ({error}); copy the file again") from error


def _of_one_filter(
    path: Path, samples: list[tuple[str, dict[str, Any]]], wanted: str
) -> list[tuple[str, dict[str, Any]]]:
    """Samples under one answer filter: the wanted one, or the only one there is."""
    filters = sorted({str(sample.get("filter", "none")) for _, sample in samples})
    if wanted and wanted not in filters:
        raise TokenmartError(
            f"--metric: {path} has no filter {wanted!r}; its filters are {', '.join(filters)}"
        )
    if not wanted and len(filters) > 1:
        metric = _metrics(samples[0][1])[0]
        choices = ", ".join(f"--metric {metric},{name}" for name in filters)
        raise TokenmartError(f"{path}: answers were filtered in several ways; use one of {choices}")
    return [
        (place, sample)
        for place, sample in samples
        if not wanted or str(sample.get("filter", "none")) == wanted
    ]


def _only_metric(path: Path, samples: list[tuple[str, dict[str, Any]]]) -> str:
    found = sorted({metric for _, sample in samples for metric in _metrics(sample)})
    if len(found) != 1:
        raise TokenmartError(
            f"{path}: holds {len(found)} metrics; use --metric with one of: {', '.join(found)}"
        )
    return found[0]


def _metrics(sample: dict[str, Any]) -> list[str]:
    """Names of a sample's metrics; older versions don't list them."""
    listed = sample.get("metrics")
    names = listed if isinstance(listed, list) else [k for k in sample if k not in _BOOKKEEPING]
    return [str(name) for name in names]


def _length(sample: dict[str, Any]) -> int | None:
    """The context length of a RULER document, in tokens, else None."""
    doc = sample.get("doc")
    length = doc.get("max_length") if isinstance(doc, dict) else None
    return length if isinstance(length, int) and str(length) in sample else None
