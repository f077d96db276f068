"""Instance-level records of Every Eval Ever: `<uuid>_samples.jsonl`, a line for each item.

The aggregates are in `<uuid>.json` in the same folder; lines refer to them by
`evaluation_result_id` (github.com/evaleval/every_eval_ever, instance_level_eval.schema.json,
0.3.0).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from plugins.benchmarks.harness.imports.measured import Measure, MeasuredImporter
from plugins.benchmarks.scores.own_aggregates import (
    chosen_metric,
    item_score,
    read_aggregate,
    refuse_lower,
    refuse_other_count,
    refuse_other_mean,
)
from warehouse.errors import TokenmartError, visible
from warehouse.importers.importer import Row
from warehouse.text_file import parse_json, text_lines

_ENDING = "_samples.jsonl"
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})")
_GENERATION = ("temperature", "top_p", "top_k", "max_tokens", "prompt_template")
"""Settings in `generation_args` that two models' scores must share to be compared."""

_Lines = list[tuple[str, dict[str, Any]]]


class EveryEvalEverImporter(MeasuredImporter):
    """Scores of items; if an item has several scores, `--metric` selects a result by its id."""

    kind = "every-eval-ever"

    def read(self, path: Path) -> Iterator[Row]:
        """The items of each evaluation in a file.

        Raises:
            TokenmartError: the file is missing, a line is invalid, or the mean differs from the
                aggregate.
        """
        lines = list(_lines(path))
        if not lines:
            raise TokenmartError(f"{path}: contains no record")
        summary = _summary(path)
        record = read_aggregate(summary)
        _refuse_other_file(path, summary, record.get("detailed_evaluation_results"), len(lines))
        for name, chosen, kept in self._evaluations(path, lines):
            aggregate = _aggregate(record, name, chosen)
            if _part(aggregate, "metric_config").get("lower_is_better"):
                refuse_lower(summary, name)
            rows = [
                Row(place, {"task": name, "item": item,
                            "score": item_score(place, line["evaluation"], "score")})
                for (place, line), item in zip(kept, _numbers(path, kept), strict=True)
            ]  # fmt: skip
            score = _part(aggregate, "score_details").get("score")
            refuse_other_mean(path, summary, name, [r.fields["score"] for r in rows], score)
            yield from rows

    def model(self, path: Path) -> str | None:
        """The models that the lines name."""
        names = {str(line["model_id"]) for _, line in _lines(path) if line.get("model_id")}
        return ", ".join(sorted(names)) or None

    def measures(self, path: Path) -> dict[str, Measure]:
        """The metric, and the settings of prompts and generations that the record states.

        The schema has no field for the version of a task; the converter of lm-evaluation-harness
        writes the number of few-shot examples into `additional_details`.
        """
        record = read_aggregate(_summary(path))
        return {
            name: _measure(_aggregate(record, name, chosen), "" if chosen == name else chosen)
            for name, chosen, _ in self._evaluations(path, list(_lines(path)))
        }

    def _evaluations(self, path: Path, lines: _Lines) -> Iterator[tuple[str, str, _Lines]]:
        """Name of each evaluation in a file, the id of the imported result, and its lines."""
        for name in dict.fromkeys(line["evaluation_name"] for _, line in lines):
            of_name = [(place, line) for place, line in lines if line["evaluation_name"] == name]
            ids = list(dict.fromkeys(str(_result(line)) for _, line in of_name))
            wanted = self.metric if len(ids) > 1 or self.metric in ids else None
            chosen = chosen_metric(path, ids, wanted, None)
            yield name, chosen, [each for each in of_name if str(_result(each[1])) == chosen]


def _summary(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(_ENDING) + ".json")


def _part(record: dict[str, Any], name: str) -> dict[str, Any]:
    """An object in a record; empty if there is none."""
    found = record.get(name)
    return found if isinstance(found, dict) else {}


def _measure(aggregate: dict[str, Any], result: str) -> Measure:
    """What the scores of an aggregate are; `result`: its id, empty if the lines have none."""
    metric, generation = (_part(aggregate, name) for name in ("metric_config", "generation_config"))
    args, details = (_part(generation, name) for name in ("generation_args", "additional_details"))
    settings = {
        **_part(metric, "metric_parameters"),
        "num_fewshot": details.get("num_fewshot"),
        **{name: args.get(name) for name in _GENERATION},
    }
    run = [f"{name} {_short(value)}" for name, value in settings.items() if value is not None]
    name = metric.get("metric_id") or metric.get("metric_name") or result
    return Measure(str(name), run=", ".join(sorted(run)))


def _short(value: Any) -> str:
    """A setting in a message: 1 for 1.0, and a hash for a long text such as a prompt template."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 20 else f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _result(line: dict[str, Any]) -> Any:
    return line.get("evaluation_result_id") or line["evaluation_name"]


def _aggregate(record: dict[str, Any], name: str, chosen: str) -> dict[str, Any]:
    """The aggregate of a result; empty where the file has none, or several by this name."""
    results = record.get("evaluation_results", [])
    if not isinstance(results, list) or not all(isinstance(each, dict) for each in results):
        return {}
    found = [each for each in results if each.get("evaluation_result_id") == chosen]
    found = found or [each for each in results if each.get("evaluation_name") == name]
    return dict(found[0]) if len(found) == 1 else {}


def _refuse_other_file(path: Path, summary: Path, details: Any, lines: int) -> None:
    """Stop if the record describes another file of lines: by its number of rows, or its hash.

    Raises:
        TokenmartError: lines are missing, or were changed.
    """
    if not isinstance(details, dict):
        return
    refuse_other_count(path, summary, lines, details.get("total_rows"))
    algorithm, checksum = details.get("hash_algorithm"), details.get("checksum")
    if algorithm not in ("sha256", "md5") or not checksum:
        return
    if hashlib.new(algorithm, path.read_bytes()).hexdigest() != checksum:
        raise TokenmartError(
            f"{path}: its {algorithm} differs from the checksum in {summary}: the file was "
            "changed, or is of another run; fetch both again"
        )


def _numbers(path: Path, lines: Sequence[tuple[str, dict[str, Any]]]) -> list[int]:
    """Numbers of the samples.

    These are their own numbers (`gsm8k_0012` is 12, if all names begin with the same text), or
    otherwise their positions in the order of their names, which are the same for models with the
    same samples.
    """
    names = [str(line["sample_id"]) for _, line in lines]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TokenmartError(f"{path}: sample_id {twice!r} is given twice in one evaluation")
    parts = [_NUMBERED.fullmatch(name) for name in names]
    if all(parts) and len({part[1] for part in parts if part}) == 1:
        own = [int(part[2]) for part in parts if part]
        if len(set(own)) == len(own):
            return own
    note = f"note: {path}: samples have no numbers of their own; each is numbered by the place of"
    click.echo(visible(f"{note} its name, so other models need the same samples"), err=True)
    places = {name: place for place, name in enumerate(sorted(names))}
    return [places[name] for name in names]


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, text in text_lines(path):
        line = parse_json(text, place)
        for name in ("evaluation_name", "sample_id", "evaluation"):
            if not isinstance(line, dict) or name not in line:
                raise TokenmartError(
                    f"{place}: {name!r} is missing; is it an instance-level file of Every Eval "
                    "Ever?"
                )
        if not isinstance(line["evaluation"], dict):
            raise TokenmartError(
                f"{place}: evaluation is {str(line['evaluation'])[:40]!r}, expected an object with "
                "a score; remove the line"
            )
        yield place, line
