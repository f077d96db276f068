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

from plugins.benchmarks.harness.imports.measured import MeasuredImporter
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
        summary = path.with_name(path.name.removesuffix(_ENDING) + ".json")
        record = read_aggregate(summary)
        _refuse_other_file(path, summary, record.get("detailed_evaluation_results"), len(lines))
        own = record.get("evaluation_results", [])
        evaluations = dict.fromkeys(line["evaluation_name"] for _, line in lines)
        for name in evaluations:
            of_name = [(place, line) for place, line in lines if line["evaluation_name"] == name]
            ids = list(dict.fromkeys(str(_result(line)) for _, line in of_name))
            wanted = self.metric if len(ids) > 1 or self.metric in ids else None
            chosen = chosen_metric(path, ids, wanted, None)
            kept = [(place, line) for place, line in of_name if str(_result(line)) == chosen]
            aggregate = _aggregate(own, name, chosen)
            config, details = (aggregate.get(key) for key in ("metric_config", "score_details"))
            if isinstance(config, dict) and config.get("lower_is_better"):
                refuse_lower(summary, name)
            rows = [
                Row(place, {"task": name, "item": item,
                            "score": item_score(place, line["evaluation"], "score")})
                for (place, line), item in zip(kept, _numbers(path, kept), strict=True)
            ]  # fmt: skip
            score = details.get("score") if isinstance(details, dict) else None
            refuse_other_mean(path, summary, name, [r.fields["score"] for r in rows], score)
            yield from rows

    def model(self, path: Path) -> str | None:
        """The models that the lines name."""
        names = {str(line["model_id"]) for _, line in _lines(path) if line.get("model_id")}
        return ", ".join(sorted(names)) or None


def _result(line: dict[str, Any]) -> Any:
    return line.get("evaluation_result_id") or line["evaluation_name"]


def _aggregate(results: Any, name: str, chosen: str) -> dict[str, Any]:
    """The aggregate of a result; empty where the file has none, or several by this name."""
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
