"""Rows of a plain table from result files of lm-evaluation-harness (`results_<date>.json`).

One file is one model, or one checkpoint of a run: see `checkpoint_names`. Files of every version
are read: before 0.4 metrics have no filter, before 0.4.3 no direction and no name of the model.
Results of one checkpoint that differ in prompts, backend, seeds or a task's version are different.
Files whose names are equal and whose weights are of different commits are of two checkpoints.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plugins.benchmarks.harness.eval_answer import run_name
from plugins.benchmarks.harness.imports.sample_files import facts_of, part_of, weights_of
from plugins.benchmarks.scores.checkpoint_names import checkpoint_of
from plugins.benchmarks.scores.metric_directions import direction_of
from plugins.benchmarks.scores.result_runs import (
    SHOWN,
    Score,
    differences,
    not_tokens,
    runs_of,
    some,
    whole_names,
)
from warehouse.errors import TokenmartError, did_you_mean
from warehouse.text_file import parse_json, read_text

ScoreRow = dict[str, str | int | float | None]

FIELDS = (
    *("model", "step", "tokens", "benchmark", "metric", "direction", "score", "stderr"),
    "parameters",
)
"""Columns of a row, named as in a plain table."""

_NAMED = re.compile(r"results.*|.*_\d{4}-\d\d-\d\dT[\d.-]+")
"""Names of files of results: with `--output_path out.json` it is `out_<date>.json`."""

_SEEDS = {"random_seed": 0, "numpy_seed": 1234, "torch_seed": 1234, "fewshot_seed": 1234}
"""Seed → the harness's default."""
_COUNTS = {"alias", "name", "sample_len", "sample_count", "samples"}
"""Entries among the metrics of a task that are no metrics."""


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


def read_results(
    paths: Sequence[Path],
    directions: Mapping[str, str] | None = None,
    metric: str | None = None,
) -> HarnessResults:
    """The scores in result files; folders are searched at any depth.

    A benchmark is named with its worked examples (`arc_easy-0shot`), a metric with its filter
    unless that is `none` (`exact_match,strict-match`). Of several results for one checkpoint the
    latest counts, with a note; those of a part of the items never replace those of all.

    Args:
        paths: files or folders.
        directions: metric → higher or lower, if neither file nor name states it.
        metric: only its scores; None for those of all metrics.

    Raises:
        TokenmartError: a file is missing or is not a result file, a folder has no result file, two
            files are of different weights under one name, the direction of a metric is unknown, or
            there are no scores.
    """
    files: set[Path] = set()
    for path in paths:
        found = [path]
        if path.is_dir():
            found = [each for each in path.rglob("*.json") if _NAMED.fullmatch(each.stem)]
        if not found:
            raise TokenmartError(
                f"{path}: no results_*.json in it; run the harness with --output_path, or name "
                "its files"
            )
        files.update(found)
    latest: dict[tuple[Any, ...], Score] = {}
    notes: list[str] = []
    for file in sorted(files):
        tree = _tree(file)
        try:
            limit = float(tree["config"].get("limit") or 0)
            own = list(_scores(file, tree, limit, notes))
        except (AttributeError, TypeError, ValueError) as error:
            raise _no_result(file, f"a part of it is not what it should be ({error})") from error
        if limit:
            notes.append(f"{file}: run with --limit {limit:g}, on a part of the items")
        replaced: dict[Path, str] = {}
        changed: dict[Path, list[str]] = defaultdict(list)
        for score in own:
            key = (score.checkpoint.identity, score.benchmark, score.metric)
            before = latest.setdefault(key, score)
            if before is not score:
                latest[key], gone, why = _of_two(before, score)
                replaced[gone.file] = f"{gone.file}: {why}"
                if gone.score != latest[key].score and gone.limit == latest[key].limit:
                    changed[gone.file].append(
                        f"{score.metric} of {score.benchmark} is {gone.score:g} here and "
                        f"{latest[key].score:g} in {latest[key].file}"
                    )
        notes += [
            f"{why} ({some(changed[path])})" if changed[path] else why
            for path, why in replaced.items()
        ]
    if not latest:
        raise TokenmartError(
            f"{', '.join(map(str, paths))}: no score in {'it' if len(files) == 1 else 'them'}"
            f"{''.join(f'; {note}' for note in notes[:SHOWN])}; name files with results"
        )
    scores = list(latest.values())
    if metric is not None:
        refuse_unknown_metric(metric, {score.metric for score in scores})
        scores = [score for score in scores if score.metric == metric]
    rows = _rows(scores, directions or {}, notes)
    return HarnessResults(sorted_rows(rows), tuple(notes))


def refuse_unknown_metric(metric: str, known: Iterable[str]) -> None:
    """Stop at a metric that no score is of.

    Raises:
        TokenmartError: with the metrics that there are.
    """
    names = sorted(known)
    if metric not in names:
        raise TokenmartError(
            f"--metric {metric}: no such metric; {did_you_mean(metric, names)}the metrics are: "
            f"{', '.join(names)}"
        )


def sorted_rows(rows: Iterable[ScoreRow]) -> tuple[ScoreRow, ...]:
    """Rows by model, step, tokens, benchmark and metric."""
    return tuple(
        sorted(rows, key=lambda row: [(row[name] is not None, row[name]) for name in FIELDS[:5]])
    )


def _of_two(one: Score, other: Score) -> tuple[Score, Score, str]:
    """The number of a checkpoint that counts, the one that doesn't, and why.

    Raises:
        TokenmartError: they are of different weights or tasks, or it is unknown which of them is
            the later.
    """
    if one.weights and other.weights and one.weights != other.weights:
        raise _other_weights(one, other)
    both = f"{one.file} and {other.file}: both give {other.metric} of {other.benchmark} at one "
    both += f"checkpoint of {other.checkpoint.model}"
    if one.version and other.version and one.version != other.version:
        raise TokenmartError(
            f"{both}, of versions {one.version} and {other.version} of the task; leave one out"
        )
    if one.limit != other.limit:
        if one.limit and other.limit:
            raise TokenmartError(
                f"{both}, with --limit {one.limit:g} and {other.limit:g}; leave one out"
            )
        part, whole = (one, other) if one.limit else (other, one)
        if part.date >= whole.date:
            return whole, part, f"{whole.file} has results of the same checkpoint on all items"
        return whole, part, "a later file has results of the same checkpoint"
    early, late = sorted((one, other), key=lambda each: each.date)
    if early.date < late.date:
        return late, early, "a later file has results of the same checkpoint"
    if early.score != late.score:
        raise TokenmartError(
            f"{both} ({early.score:g} and {late.score:g}), and no date shows which is later; "
            "leave one out"
        )
    return late, early, f"has the same results as {late.file}"


def _refuse_other_weights(scores: Iterable[Score]) -> None:
    """One checkpoint of a run has one commit of weights, in whichever files and settings."""
    known: dict[tuple[int | None, float | None], Score] = {}
    for score in scores:
        place = (score.checkpoint.step, score.checkpoint.tokens)
        if score.weights and known.setdefault(place, score).weights != score.weights:
            raise _other_weights(known[place], score)


def _other_weights(one: Score, other: Score) -> TokenmartError:
    commits = [", ".join(f"{name} {sha}" for name, sha in each.weights) for each in (one, other)]
    values = f"{one.metric} of {one.benchmark} is {one.score:g} and {other.score:g}"
    if (one.benchmark, one.metric) != (other.benchmark, other.metric):
        values = f"{one.metric} of {one.benchmark} is {one.score:g} in the one, {other.metric} of "
        values += f"{other.benchmark} {other.score:g} in the other"
    return TokenmartError(
        f"{one.file} and {other.file}: two checkpoints with one name, {other.checkpoint.place} "
        f"({' and '.join(commits)}; {values}); leave one out, or name the revision in model_args "
        "of each file (pretrained=…,revision=…)"
    )


def _tree(path: Path) -> dict[str, Any]:
    if path.name.startswith("samples_") and path.suffix == ".jsonl":
        raise TokenmartError(
            f"{path}: is a sample file of lm-evaluation-harness, with a line per item; `tokenmart "
            "data import --format samples` reads it. Give the results_….json in the same folder"
        )
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


def _settings(config: Mapping[str, Any]) -> dict[str, object]:
    """Settings in which results of one model can differ; None for a default."""
    backend = str(config.get("model") or "")
    seeds = {
        name: None if config.get(name) in (None, default) else config[name]
        for name, default in _SEEDS.items()
    }
    return {
        "backend": None if not backend or backend.startswith(("hf", "huggingface")) else backend,
        "gen_kwargs": config.get("gen_kwargs") or None,
        **seeds,
    }


def _scores(path: Path, tree: dict[str, Any], limit: float, notes: list[str]) -> Iterator[Score]:
    """The numbers of a file; notes name what is left out of it."""
    name, config = tree.get("model_name"), tree["config"]
    name = name if isinstance(name, str) else None
    checkpoint = checkpoint_of(name, config.get("model_args"), _settings(config))
    if checkpoint is None:
        raise TokenmartError(
            f"{path}: neither model_name nor config.model_args names a model; add a line "
            '"model_name": "NAME" to the file'
        )
    weights = weights_of(tree)
    counted = config.get("model_num_parameters")
    parameters = counted if isinstance(counted, int) and counted > 0 else None  # -1: unknown
    old = "n-shot" not in tree and "configs" not in tree and "num_fewshot" in config
    for task, values in tree["results"].items():
        shots = config["num_fewshot"] if old else part_of(tree, "n-shot", task)
        if isinstance(shots, list):
            notes.append(
                f"{path}: {task}: num_fewshot is {shots}, which doesn't show those of this task; "
                "its name in the table has none"
            )
        better = part_of(tree, "higher_is_better", task) or {}
        run = run_name(shots if isinstance(shots, int) else None, facts_of(tree, task).chat)
        plain = [key for key in values if "," not in key and key not in _COUNTS]
        if plain and not old:
            notes.append(
                f"{path}: {task}: {some(plain)}: no metric of the harness, whose names have an "
                "answer filter behind a comma; left out"
            )
        for key, value in values.items():
            metric, comma, chosen = key.partition(",")
            if not (comma or old) or metric.endswith("_stderr") or metric in _COUNTS:
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
            yield Score(
                file=path,
                date=float(tree.get("date") or 0),
                limit=limit,
                version=str(part_of(tree, "versions", task) or ""),
                harness=str(tree.get("lm_eval_version") or ""),
                checkpoint=checkpoint,
                benchmark=f"{task}-{run}" if run else task,
                metric=metric if chosen in ("", "none") else key,
                direction=("higher" if said else "lower") if isinstance(said, bool) else None,
                score=value,
                stderr=stderr if known else None,
                weights=weights,
                parameters=parameters,
            )


def _rows(
    scores: Sequence[Score], directions: Mapping[str, str], notes: list[str]
) -> Iterator[ScoreRow]:
    better = _directions(scores, directions)
    by_model: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        by_model[score.checkpoint.model].append(score)
    for model, own in by_model.items():
        runs = runs_of(model, own)
        if len(runs) > 1:
            notes.append(
                f"{model}: its files are of {len(runs)} runs, named {some(runs)} in the table"
            )
        for run, members in runs.items():
            _refuse_other_weights(members)
            notes += [*differences(run, members), *whole_names(members)]
            stepless = {s.file for s in members if s.checkpoint.step is None}
            every = all(s.checkpoint.tokens is not None for s in members)
            if every and (said := not_tokens(members)):
                notes.append(f"{run}: {said}")
                every = False
            elif stepless and not every and len({s.checkpoint.identity for s in members}) > 1:
                notes.append(
                    f"{some(sorted(map(str, stepless)))}: no training step in the name or "
                    f"revision; the row of {run} has none: write it into the table"
                )
            elif not every and any(s.checkpoint.tokens is not None for s in members):
                notes.append(f"{run}: tokens are not in every name; the table has steps only")
            sizes = {score.parameters for score in members}
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
                    # one number for a run, or none
                    "parameters": score.parameters if len(sizes) == 1 else None,
                }


def _directions(scores: Sequence[Score], given: Mapping[str, str]) -> dict[str, str]:
    """Metric → higher or lower: as given, else as stated in a file, else by its name."""
    found: dict[str, str] = {}
    unknown: set[str] = set()
    for score in scores:
        name = score.metric.partition(",")[0]
        asked = given.get(score.metric) or given.get(name)
        own = direction_of(name)
        direction = asked or score.direction or found.get(score.metric) or own
        # a metric that is called a score may be one of anything
        if own and name != "score" and not asked and direction != own:
            raise TokenmartError(
                f"{score.file}: {direction} values of {score.metric} are better, by its name {own} "
                f"ones; give --direction {name}={own}, or ={direction} if the file is right"
            )
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
            f"{some(missing)}: neither the files nor the harness's registry say whether higher "
            f"or lower values are better; give --direction {missing[0].partition(',')[0]}=higher "
            "or =lower" + (", and so for each" if len(missing) > 1 else "")
        )
    return found
