"""Scores in result files of lm-evaluation-harness (`results_<date>.json`), as a plain table.

One file is one model, or one checkpoint of a run. Before 0.4.3 metrics have no direction.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plugins.benchmarks.harness.imports.sample_files import (
    checkpoint_name,
    facts_of,
    part_of,
    run_name,
    weights_of,
)
from plugins.benchmarks.json_files import parse_json
from plugins.benchmarks.refusal import refused, unknown
from plugins.benchmarks.scores.checkpoints import Checkpoint
from warehouse.files import read_text

FIELDS = (
    "model",
    "step",
    "tokens",
    "benchmark",
    "metric",
    "direction",
    "score",
    "stderr",
    "parameters",
    "size",
    "architecture",
    "recipe",
)
"""Columns of a row, named as in a plain table."""

_NAMED = re.compile(r"results.*|.*_\d{4}-\d\d-\d\dT[\d.-]+")
"""Names of files of results: with `--output_path out.json` it is `out_<date>.json`."""

_COUNTS = {"alias", "name", "sample_len", "sample_count", "samples"}
"""Entries among the metrics of a task that are no metrics."""

Row = dict[str, str | int | float | None]


@dataclass(frozen=True)
class Score:
    """One number of a checkpoint.

    name: of the checkpoint. direction: as its file states it. file, date, limit (of items, 0 for
    all of them), weights (their commit), version (of the task): where it is from; empty if unknown.
    """

    name: str
    benchmark: str
    metric: str
    direction: str | None
    value: float
    stderr: float | None
    parameters: int | None
    file: Path
    date: float
    limit: float
    weights: str
    version: str


def read_results(paths: Sequence[Path], metric: str | None = None) -> tuple[list[Score], list[str]]:
    """The scores in result files, and notes; folders are searched at any depth.

    A benchmark is named with its few-shot examples (`arc_easy-0shot`), a metric with its filter
    unless that is `none` (`exact_match,strict-match`). Of several results for one checkpoint the
    latest counts, with a note; those of a part of the items never replace those of all.

    Args:
        paths: files and folders.
        metric: only the scores of this metric; None for all.

    Raises:
        TokenmartError: a file is missing or is not a result file, a folder has no result file, two
            results of one date or of two limits differ, results of one name are of two commits of
            weights, or there are no scores.
    """
    files: set[Path] = set()
    for path in paths:
        chosen = [path]
        if path.is_dir():
            chosen = [each for each in path.rglob("*.json") if _NAMED.fullmatch(each.stem)]
        if not chosen:
            raise refused(path, "no results_*.json in it", "no-results")
        files.update(chosen)
    latest: dict[tuple[str, str, str], Score] = {}
    notes: list[str] = []
    for file in sorted(files):
        try:
            of_file = list(_scores(file, _tree(file), notes))
        except (AttributeError, TypeError, ValueError) as error:
            raise refused(file, f"no result file ({error})", "no-results") from error
        replaced: dict[Path, Score] = {}
        for score in of_file:
            key = score.name, score.benchmark, score.metric
            before = latest.setdefault(key, score)
            if before is not score:
                latest[key], gone = _of_two(before, score)
                replaced[gone.file] = latest[key]
        notes += [f"{gone}: {kept.file} counts, of {kept.name}" for gone, kept in replaced.items()]
    if not latest:
        raise refused(paths[0], "; ".join(["no score", *notes[:3]]), "no-score")
    notes += _other_versions(latest.values())
    _refuse_other_weights(latest.values())
    known = sorted({score.metric for score in latest.values()})
    if metric is not None and metric not in known:
        raise unknown("--metric", metric, known)
    return [score for score in latest.values() if metric in (None, score.metric)], notes


def _of_two(one: Score, other: Score) -> tuple[Score, Score]:
    """Of two results of a checkpoint the one that counts, and the other.

    Raises:
        TokenmartError: they are of two parts of the items, or it is unknown which of them is the
            later.
    """
    gone, kept = sorted((one, other), key=lambda result: (not result.limit, result.date))
    if gone.limit == kept.limit:
        unclear = gone.date == kept.date and gone.value != kept.value
    else:
        unclear = kept.limit > 0
    if unclear:
        what = (
            f"{kept.file} has another {kept.metric} of {kept.benchmark} of {kept.name} (values "
            f"{gone.value:g} and {kept.value:g}, limits {gone.limit:g} and {kept.limit:g}); leave "
            "one out"
        )
        raise refused(gone.file, what, "two-results")
    return kept, gone


def _refuse_other_weights(scores: Collection[Score]) -> None:
    """Files of one name have one commit of weights, in whichever task.

    Raises:
        TokenmartError: they have two.
    """
    known: dict[str, Score] = {}
    for score in scores:
        first = known.setdefault(score.name, score) if score.weights else score
        if first.weights != score.weights:
            what = (
                f"{score.file} has the same name, {score.name}, and weights of another commit "
                f"({first.weights} and {score.weights}); name the revision in its model_args"
            )
            raise refused(first.file, what, "other-weights")


def _other_versions(scores: Collection[Score]) -> Iterator[str]:
    """Notes on benchmarks of which results of several versions of the task are compared."""
    versions: dict[str, set[str]] = {}
    for score in scores:
        versions.setdefault(score.benchmark, set()).add(score.version or "unknown")
    for benchmark, of_task in versions.items():
        if len(of_task) > 1:
            yield f"{benchmark}: results of versions {', '.join(sorted(of_task))} of the task"


def _tree(path: Path) -> dict[str, Any]:
    tree = parse_json(read_text(path), str(path)) if path.suffix == ".json" else None
    whole = isinstance(tree, dict) and isinstance(tree.get("results"), dict)
    if not whole or not isinstance(tree, dict) or not isinstance(tree.get("config"), dict):
        what = "no result file of lm-evaluation-harness; expected 'results' and 'config'"
        raise refused(path, what, "no-results")
    if checkpoint_name(tree) is None:
        raise refused(path, "no model_name and no model in config.model_args", "no-model")
    return dict(tree)


def _scores(path: Path, tree: dict[str, Any], notes: list[str]) -> Iterator[Score]:
    """The numbers of a file; notes name what is left out of it."""
    config = tree["config"]
    limit = float(config.get("limit") or 0)
    if limit:
        notes.append(f"{path}: run with --limit {limit:g}, on a part of the items")
    counted = config.get("model_num_parameters")
    left_out: list[str] = []
    for task, values in tree["results"].items():
        better = part_of(tree, "higher_is_better", task) or {}
        facts = facts_of(tree, task)
        run = run_name(facts.shots, facts.chat)
        for key, value in values.items():
            metric, comma, chosen = key.partition(",")
            if metric.endswith("_stderr") or metric in _COUNTS:
                continue
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not comma or not is_number or not math.isfinite(value):
                left_out.append(f"{key} of {task}")
                continue
            stderr = values.get(f"{metric}_stderr{comma}{chosen}")
            known = isinstance(stderr, int | float) and math.isfinite(stderr)
            stated = better.get(metric)
            yield Score(
                file=path,
                date=float(tree.get("date") or 0),
                limit=limit,
                weights=weights_of(tree),
                version=facts.version,
                name=checkpoint_name(tree) or "",
                benchmark=f"{task}-{run}" if run else task,
                metric=metric if chosen == "none" else key,
                direction=("higher" if stated else "lower") if isinstance(stated, bool) else None,
                value=value,
                stderr=stderr if known else None,
                # -1: unknown
                parameters=counted if isinstance(counted, int) and counted > 0 else None,
            )
    if left_out:
        notes.append(f"{path}: no finite number, left out: {', '.join(left_out[:5])}")


def table_rows(scores: Sequence[Score], named: Mapping[str, Checkpoint]) -> list[Row]:
    """The rows of a plain table, sorted; `named`: name → checkpoint.

    A direction that one file states holds for the scores of the metric in files that state none.
    """
    stated = {score.metric: score.direction for score in scores if score.direction}
    rows: list[Row] = [
        {
            **named[score.name].model_dump(exclude={"name"}),
            "benchmark": score.benchmark,
            "metric": score.metric,
            "direction": score.direction or stated.get(score.metric),
            "score": score.value,
            "stderr": score.stderr,
        }
        for score in scores
    ]
    return sorted(rows, key=lambda row: [(row[n] is not None, row[n]) for n in FIELDS[:5]])
