"""Rows of a plain table from result files of lm-evaluation-harness (`results_<date>.json`).

One file is one model, or one checkpoint of a run: see `checkpoint_names`. Files of every version
are read: before 0.4, metrics have no filter; before 0.4.3, files have no directions and no model
name.
"""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plugins.benchmarks.scores.checkpoint_names import Checkpoint, checkpoint_of
from plugins.benchmarks.scores.metric_directions import direction_of
from warehouse.errors import TokenmartError
from warehouse.text_file import parse_json, read_text

ScoreRow = dict[str, str | int | float | None]

FIELDS = ("model", "step", "tokens", "benchmark", "metric", "direction", "score", "stderr")
"""Columns of a row, named as in a plain table."""

_SHOWN = 5


@dataclass(frozen=True)
class HarnessResults:
    """Rows in the columns `FIELDS`, sorted, and notes on them."""

    rows: tuple[ScoreRow, ...]
    notes: tuple[str, ...]

    def csv(self) -> str:
        """The plain table, as text."""
        text = io.StringIO()
        writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()


@dataclass(frozen=True)
class _Score:
    """One score of a file."""

    file: Path
    date: float
    checkpoint: Checkpoint
    benchmark: str
    metric: str
    direction: str | None
    score: float
    stderr: float | None

    @property
    def point(self) -> tuple[Any, ...]:
        """Position in a table; two checkpoints at one position are distinguished by their run."""
        return self.checkpoint.step, self.checkpoint.tokens, self.benchmark, self.metric


def read_results(
    paths: Sequence[Path], directions: Mapping[str, str] | None = None
) -> HarnessResults:
    """The scores in result files; folders are searched at any depth.

    A benchmark is named with its number of few-shot examples (`arc_easy-0shot`), a metric with its
    filter unless that is `none` (`exact_match,strict-match`). If a checkpoint has several results,
    the latest is used, with a note.

    Args:
        paths: files or folders.
        directions: metric → higher or lower, if neither file nor name states it.

    Raises:
        TokenmartError: a file is missing or is not a result file, a folder has no result file, the
            direction of a metric is unknown, or there are no scores.
    """
    files: set[Path] = set()
    for path in paths:
        found = sorted(path.rglob("results*.json")) if path.is_dir() else [path]
        if not found:
            raise TokenmartError(
                f"{path}: no results_*.json in it; run the harness with --output_path, or name "
                "its files"
            )
        files.update(found)
    latest: dict[tuple[Any, ...], _Score] = {}
    notes: list[str] = []
    for file in sorted(files):
        tree = _tree(file)
        try:
            limit = float(tree["config"].get("limit") or 0)
            own = list(_scores(file, tree, notes))
        except (AttributeError, TypeError, ValueError) as error:
            raise _no_result(file, f"a part of it is not what it should be ({error})") from error
        if limit:
            notes.append(f"{file}: run with --limit {limit:g}, on a part of the items")
        replaced: dict[Path, str] = {}
        for score in own:
            key = (score.checkpoint.identity, score.benchmark, score.metric)
            before = latest.setdefault(key, score)
            if before is not score:
                early, latest[key] = sorted((before, score), key=lambda each: each.date)
                replaced[early.file] = _replaced(early, latest[key])
        notes += replaced.values()
    if not latest:
        raise TokenmartError(
            f"{', '.join(map(str, paths))}: no score in {'it' if len(files) == 1 else 'them'}"
            f"{''.join(f'; {note}' for note in notes[:_SHOWN])}; name files with results"
        )
    rows = _rows(list(latest.values()), directions or {}, notes)
    return HarnessResults(sorted_rows(rows), tuple(notes))


def sorted_rows(rows: Iterable[ScoreRow]) -> tuple[ScoreRow, ...]:
    """Rows by model, step, tokens, benchmark and metric."""
    return tuple(
        sorted(rows, key=lambda row: [(row[name] is not None, row[name]) for name in FIELDS[:5]])
    )


def _replaced(early: _Score, late: _Score) -> str:
    """Reason why a score isn't in the table.

    Raises:
        TokenmartError: the order of two results is unknown.
    """
    if early.date < late.date:
        return f"{early.file}: a later file has results of the same checkpoint"
    if early.score != late.score:
        raise TokenmartError(
            f"{early.file} and {late.file}: both give {late.metric} of {late.benchmark} at one "
            f"checkpoint of {late.checkpoint.model} ({early.score:g} and {late.score:g}), and no "
            "date shows which is later; leave one out"
        )
    return f"{early.file}: has the same results as {late.file}"


def _tree(path: Path) -> dict[str, Any]:
    tree = parse_json(read_text(path), str(path))
    whole = isinstance(tree, dict) and isinstance(tree.get("results"), dict)
    if not whole or not isinstance(tree.get("config"), dict):
        raise _no_result(path, "expected 'results' and 'config'")
    return dict(tree)


def _no_result(path: Path, why: str) -> TokenmartError:
    return TokenmartError(
        f"{path}: no result file of lm-evaluation-harness, {why}; name those that it wrote as "
        "results_….json"
    )


def _scores(path: Path, tree: dict[str, Any], notes: list[str]) -> Iterator[_Score]:
    """The scores of a file; notes list what is left out."""
    name, config = tree.get("model_name"), tree["config"]
    checkpoint = checkpoint_of(name if isinstance(name, str) else None, config.get("model_args"))
    if checkpoint is None:
        raise TokenmartError(
            f"{path}: neither model_name nor config.model_args names a model; add a line "
            '"model_name": "NAME" to the file'
        )
    old = "n-shot" not in tree and "configs" not in tree and "num_fewshot" in config
    for task, values in tree["results"].items():
        shots = config["num_fewshot"] if old else (tree.get("n-shot") or {}).get(task)
        better = (tree.get("higher_is_better") or {}).get(task) or {}
        for key, value in values.items():
            metric, comma, chosen = key.partition(",")
            if not (comma or old) or metric.endswith("_stderr") or metric == "alias":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                notes.append(f"{path}: {task}: {key} is {value!r}, no number; left out")
                continue
            if not math.isfinite(value):
                notes.append(f"{path}: {task}: {key} is {value}; left out of the table")
                continue
            stderr = values.get(f"{metric}_stderr{comma}{chosen}")
            known = isinstance(stderr, int | float) and math.isfinite(stderr)
            said = better.get(metric)
            yield _Score(
                file=path,
                date=float(tree.get("date") or 0),
                checkpoint=checkpoint,
                benchmark=task if shots is None else f"{task}-{shots}shot",
                metric=metric if chosen in ("", "none") else key,
                direction=("higher" if said else "lower") if isinstance(said, bool) else None,
                score=value,
                stderr=stderr if known else None,
            )


def _rows(
    scores: Sequence[_Score], directions: Mapping[str, str], notes: list[str]
) -> Iterator[ScoreRow]:
    better = _directions(scores, directions)
    by_model: dict[str, list[_Score]] = defaultdict(list)
    for score in scores:
        by_model[score.checkpoint.model].append(score)
    for model, own in by_model.items():
        runs = _runs(model, own)
        if len(runs) > 1:
            notes.append(
                f"{model}: its files are of {len(runs)} runs, named {_some(runs)} in the table"
            )
        for run, members in runs.items():
            stepless = {s.file for s in members if s.checkpoint.step is None}
            every = all(s.checkpoint.tokens is not None for s in members)
            if stepless and not every and len({s.checkpoint.identity for s in members}) > 1:
                notes.append(
                    f"{_some(sorted(map(str, stepless)))}: no training step in the name or "
                    f"revision; the row of {run} has none: write it into the table"
                )
            elif not every and any(s.checkpoint.tokens is not None for s in members):
                notes.append(f"{run}: tokens are not in every name; the table has steps only")
            for score in members:
                yield {
                    "model": run,
                    "step": score.checkpoint.step,
                    "tokens": score.checkpoint.tokens if every else None,
                    "benchmark": score.benchmark,
                    "metric": score.metric,
                    "direction": better[score.metric],
                    "score": score.score,
                    "stderr": score.stderr,
                }


def _directions(scores: Sequence[_Score], given: Mapping[str, str]) -> dict[str, str]:
    """Metric → higher or lower: from the option, otherwise from a file, otherwise from its name."""
    found: dict[str, str] = {}
    unknown: set[str] = set()
    for score in scores:
        name = score.metric.partition(",")[0]
        direction = given.get(score.metric) or given.get(name) or score.direction
        direction = direction or found.get(score.metric) or direction_of(name)
        if direction is None:
            unknown.add(score.metric)
        elif found.setdefault(score.metric, direction) != direction:
            raise TokenmartError(
                f"{score.file}: {direction} values of {score.metric} are better, in other files "
                f"{found[score.metric]} ones; give --direction {name}={direction}, or collect "
                "them separately"
            )
    if missing := sorted(unknown - set(found)):
        raise TokenmartError(
            f"{_some(missing)}: neither the files nor the harness's registry state whether higher "
            f"or lower values are better; give --direction {missing[0].partition(',')[0]}=higher "
            "or =lower" + (", and so for each" if len(missing) > 1 else "")
        )
    return found


def _runs(model: str, scores: Sequence[_Score]) -> dict[str, list[_Score]]:
    """Scores by run: separate if the rest of the name, or else the model arguments, differ.

    Raises:
        TokenmartError: two checkpoints can't be distinguished.
    """
    several = len({score.checkpoint.rest for score in scores}) > 1
    found: dict[str, list[_Score]] = defaultdict(list)
    for score in scores:
        rest = score.checkpoint.rest
        found[f"{model}@{rest}" if several and rest else model].append(score)
    runs: dict[str, list[_Score]] = {}
    for run, members in found.items():
        if _clash(members) is None:
            runs[run] = members
            continue
        arguments = {score.checkpoint.other_arguments for score in members}
        common = set.intersection(*map(set, arguments))
        apart: dict[str, list[_Score]] = defaultdict(list)
        for score in members:
            own = [pair for pair in score.checkpoint.other_arguments if pair not in common]
            listed = ",".join(f"{key}={value}" for key, value in own)
            apart[f"{run}[{listed}]" if listed else run].append(score)
        if again := next(filter(None, map(_clash, apart.values())), None):
            one, other = again
            raise TokenmartError(
                f"{one.file} and {other.file}: two checkpoints of {run} at one step "
                f"({_different(one, other)}); collect them separately"
            )
        runs |= apart
    return runs


def _clash(scores: Iterable[_Score]) -> tuple[_Score, _Score] | None:
    """Two scores of different checkpoints at one point of a table."""
    seen: dict[tuple[Any, ...], _Score] = {}
    for score in scores:
        before = seen.setdefault(score.point, score)
        if before.checkpoint.identity != score.checkpoint.identity:
            return before, score
    return None


def _different(one: _Score, other: _Score) -> str:
    first, second = (set(each.checkpoint.identity) for each in (one, other))
    return " and ".join(f"{key}={value}" for key, value in sorted(first ^ second))


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more
