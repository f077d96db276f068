"""Scores in result files of lm-evaluation-harness (`results_<date>.json`).

One file is one model, or one checkpoint of a run. Before 0.4.3 metrics have no direction.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
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
from plugins.benchmarks.refusal import refused
from plugins.benchmarks.scores.collected import Collected, Score
from warehouse.files import read_text

_NAMED = re.compile(r"results.*|.*_\d{4}-\d\d-\d\dT[\d.-]+")
"""Names of files of results: with `--output_path out.json` it is `out_<date>.json`."""

_COUNTS = {"alias", "name", "sample_len", "sample_count", "samples"}
"""Entries among the metrics of a task that are no metrics."""


def read_results(paths: Sequence[Path]) -> Collected:
    """The scores in result files; folders are searched at any depth.

    A benchmark is named with its few-shot examples (`arc_easy-0shot`), a metric with its filter
    unless that is `none` (`exact_match,strict-match`). Of several results for one checkpoint the
    latest counts, with a note; those of a part of the items never replace those of all.

    Raises:
        TokenmartError: a file is missing or is not a result file, a folder has no result file, two
            results contradict each other, or there are no scores.
    """
    files: set[Path] = set()
    for path in paths:
        found = [path]
        if path.is_dir():
            found = [each for each in path.rglob("*.json") if _NAMED.fullmatch(each.stem)]
        if not found:
            raise refused(path, "no results_*.json in it", "no-results")
        files.update(found)
    trees = {file: _tree(file) for file in sorted(files)}
    latest: dict[tuple[str, str, str], Score] = {}
    notes: list[str] = []
    for file, tree in trees.items():
        try:
            own = list(_scores(file, tree, notes))
        except (AttributeError, TypeError, ValueError) as error:
            raise refused(file, f"no result file ({error})", "no-results") from error
        replaced: dict[str, str] = {}
        for score in own:
            key = score.name, score.benchmark, score.metric
            before = latest.setdefault(key, score)
            if before is not score:
                latest[key], gone = _of_two(before, score)
                replaced[f"{gone.file}: {latest[key].file} has results of the same checkpoint"] = (
                    f"{gone.metric} of {gone.benchmark}: {gone.value:g} and {latest[key].value:g}"
                )
        notes += [f"{why} ({values})" for why, values in replaced.items()]
    _refuse_other_weights(latest.values())
    notes += _other_versions(latest.values())
    if not latest:
        raise refused(paths[0], "; ".join(["no score", *notes[:3]]), "no-score")
    return Collected(list(latest.values()), notes)


def _of_two(one: Score, other: Score) -> tuple[Score, Score]:
    """Of two results of a checkpoint the one that counts, and the other.

    Raises:
        TokenmartError: they are of two versions of a task or two limits, or it is unknown which of
            them is the later.
    """
    early, late = sorted((one, other), key=lambda each: each.date)
    part, whole = sorted((one, other), key=lambda each: -each.limit)
    if one.version == other.version or not (one.version and other.version):
        if part.limit and not whole.limit:
            return whole, part
        if one.limit == other.limit and (early.date < late.date or early.value == late.value):
            return late, early
    raise refused(
        one.file,
        f"{other.file} has another {one.metric} of {one.benchmark} of {one.name} (values "
        f"{one.value:g} and {other.value:g}, versions {one.version or '?'} and "
        f"{other.version or '?'}, limits {one.limit:g} and {other.limit:g}); leave one out",
        "two-results",
    )


def _refuse_other_weights(scores: Collection[Score]) -> None:
    """Files of one name have one commit of weights, in whichever task."""
    known: dict[str, Score] = {}
    for score in scores:
        if score.weights and known.setdefault(score.name, score).weights != score.weights:
            first = known[score.name]
            raise refused(
                first.file,
                f"{score.file} has the same name, {score.name}, and weights of another commit "
                f"({first.weights} and {score.weights}); name the revision in its model_args",
                "other-weights",
            )


def _other_versions(scores: Collection[Score]) -> Iterator[str]:
    """Benchmarks of which results of several versions of the task are compared."""
    versions: dict[str, set[str]] = {}
    for score in scores:
        versions.setdefault(score.benchmark, set()).add(score.version or "unknown")
    for benchmark, found in versions.items():
        if len(found) > 1:
            yield f"{benchmark}: results of versions {', '.join(sorted(found))} of the task"


def _tree(path: Path) -> dict[str, Any]:
    tree = parse_json(read_text(path), str(path)) if path.suffix == ".json" else None
    whole = isinstance(tree, dict) and isinstance(tree.get("results"), dict)
    if not whole or not isinstance(tree, dict) or not isinstance(tree.get("config"), dict):
        raise refused(
            path,
            "no result file of lm-evaluation-harness; expected results_<date>.json with 'results' "
            "and 'config' (samples: `tokenmart data import --format samples`)",
            "no-results",
        )
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
        shots = part_of(tree, "n-shot", task)
        better = part_of(tree, "higher_is_better", task) or {}
        run = run_name(shots if isinstance(shots, int) else None, facts_of(tree, task).chat)
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
                version=str(part_of(tree, "versions", task) or ""),
                weights=" ".join(sha for _, sha in weights_of(tree)),
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
