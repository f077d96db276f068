"""The official scorer: a checked submission against a locked target, as one JSON document.

A submission has one finite number per model, and is read strictly. Deterministic: the same files,
seed and code give the same document. Its fields are documented by
`analysis/submission/verify_result.schema.json`. Imports neither torch nor dbt.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click
import numpy as np

from analysis.statistics.correlations import (
    Interval,
    number,
    pearson,
    signed,
    spearman,
    without_rounding,
)
from analysis.statistics.resampling import Estimate, skipped_estimate, spearman_estimate
from analysis.statistics.skipped import CUTOFF, Skipped, exact_skipped, flag_stability
from warehouse.errors import BadSubmissionError, LockedFileError, TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.target_file import read_locked_target
from warehouse.store.provenance import code_revision, foreign_modules, versions
from warehouse.strict_json import StrictJsonError, kind, read_json, shown
from warehouse.terminal import listed

PROBLEM = "no4k"
"""The locked problem: its name, the path of its target file, its models."""

TARGET_PATH = Path("results/downstream/downstream_avg.ruler32_longbench_lt32k.no4k.json")

MODELS = (
    "01-ai/Yi-6B-200K",
    "In2Training/FILM-7B",
    "Leooyii/Longlora_32k_Slimpajama_1B",
    "Leooyii/NTK_32k_Slimpajama_1B",
    "Leooyii/NTK_64k_Slimpajama_1B",
    "Leooyii/NTK_64k_Slimpajama_2B",
    "Leooyii/PI_32k_Slimpajama_1B",
    "Qwen/Qwen2-0.5B-Instruct",
    "Qwen/Qwen2-1.5B-Instruct",
    "Qwen/Qwen2-7B-Instruct",
    "Qwen/Qwen2.5-0.5B-Instruct",
    "Qwen/Qwen2.5-1.5B-Instruct",
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen2.5-14B-Instruct",
    "Qwen/Qwen2.5-Coder-1.5B-Instruct",
    "Qwen/Qwen2.5-Coder-7B-Instruct",
    "mistralai/Mistral-7B-Instruct-v0.2",
)

SCHEMA = "tokenmart/verify_result/1"
MAXIMUM_BYTES = 4 << 20
MODEL_KEY = "model"
UNINFORMATIVE_WIDTH = 1.0
"""An interval wider than half of the range can't distinguish a strong correlation from none."""

SAME_SPEARMAN = 1e-9
"""Correlations of the same ranks, computed twice, differ by less."""

_COMPUTING = ("numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class Submission:
    """A submission that passed every check.

    scores: model → score, in the order of the problem's models.
    record: where they came from, with the sha256 of the very bytes that were parsed.
    """

    scores: dict[str, float]
    record: dict[str, str | None]


def read_submission(path: Path, models: Sequence[str], metric_key: str = "score") -> Submission:
    """Read a submission in either format and check it against the model set.

    Args:
        path: JSON object `{model: score}` or list of rows with `model` and `metric_key`.
        models: the exact set that must be scored.
        metric_key: the score's key in a row; an object has none.

    Raises:
        BadSubmissionError: any defect, named on one line.
    """
    try:
        file = read_json(path, MAXIMUM_BYTES)
    except StrictJsonError as error:
        raise BadSubmissionError(f"{_named(path)}: submission {error}") from error
    if isinstance(file.content, dict):
        scores_of = file.content
    elif isinstance(file.content, list):
        scores_of = _rows(path, file.content, metric_key)
    else:
        expected = "submission must be an object {model: score} or a list of rows"
        _refuse(path, f"{expected}, found {kind(file.content)}")
    _check_models(path, scores_of, models)
    scores = {model: _score(path, model, scores_of[model]) for model in models}
    if len(set(scores.values())) == 1:
        same = f"every model has the score {scores[models[0]]!r}"
        _refuse(path, f"{same}: no correlation is defined")
    form, key = ("rows", metric_key) if isinstance(file.content, list) else ("object", None)
    record = {"path": str(path), "sha256": file.sha256, "format": form, "metric_key": key}
    return Submission(scores, record)


def _rows(path: Path, rows: list[Any], metric_key: str) -> dict[str, Any]:
    scores_of: dict[str, Any] = {}
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            _refuse(path, f"row {index} must be an object, found {kind(row)} {shown(row)}")
        if MODEL_KEY not in row:
            _refuse(path, f"row {index} has no {shown(MODEL_KEY)} field; it has {_keys(row)}")
        model = row[MODEL_KEY]
        if not isinstance(model, str):
            _refuse(path, f"row {index}: {shown(MODEL_KEY)} must be a string, found {kind(model)}")
        if metric_key not in row:
            _refuse(
                path,
                f"row {index} ({shown(model)}) has no {shown(metric_key)} field; it has "
                f"{_keys(row)} (choose with --metric-key)",
            )
        if model in scores_of:
            _refuse(path, f"row {index} repeats the model {shown(model)}")
        scores_of[model] = row[metric_key]
    return scores_of


def _check_models(path: Path, scores_of: Iterable[str], models: Sequence[str]) -> None:
    given = set(scores_of)
    missing = [model for model in models if model not in given]
    extra = sorted(given - set(models))
    if not missing and not extra:
        return
    parts = []
    if missing:
        parts.append(f"missing {len(missing)} of {len(models)} models: {', '.join(missing)}")
    if extra:
        parts.append(
            f"not in the model set: {listed([_hinted(name, missing) for name in extra], 20)}"
        )
    _refuse(path, "; ".join(parts))


def _hinted(name: str, missing: list[str]) -> str:
    near = difflib.get_close_matches(name[:200], missing, n=1, cutoff=0.8)
    return shown(name) + (f" (did you mean {near[0]}?)" if near else "")


def _keys(row: dict[str, Any]) -> str:
    return listed([shown(key) for key in row], 8) or "no fields"


def _score(path: Path, model: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(path, f"score of {model} must be a number, found {kind(value)} {shown(value)}")
    try:
        score = float(value)
    except OverflowError:
        score = math.inf
    if not math.isfinite(score):
        _refuse(path, f"score of {model} must be a finite number, found {shown(value)}")
    return score


def _named(path: Path) -> str:
    text = str(path)  # made to print anywhere, on one line
    return text if text.isprintable() and text.isascii() else shown(text, 200)


def _refuse(path: Path, defect: str) -> NoReturn:
    raise BadSubmissionError(f"{_named(path)}: {defect}")


def verify_problem(
    workspace: Workspace, name: str, submission: Path, metric_key: str, seed: int, resamples: int
) -> dict[str, Any]:
    """The document of a submission to a problem; the locked one needs no problem file.

    Raises:
        TokenmartError: the problem has no target scores (yet), or those measured are all equal.
        LockedFileError: the target file is missing, malformed, changed or the same for all models
            (exit code 3).
        BadSubmissionError: the submission breaks the contract (exit code 2).
    """
    asked = name
    if name == PROBLEM:
        checked = read_submission(submission, MODELS, metric_key)
        target = read_locked_target(workspace, name, TARGET_PATH, MODELS)
        scores = target.only(MODELS)
        path = TARGET_PATH.as_posix()
        source: dict[str, Any] = {"kind": "file", "path": path, "sha256": target.sha256}
        if target.first_use:
            click.echo(f"note: recorded sha256 of {path} on first use", err=True)
    else:
        from analysis.ranking.loading import load_target
        from warehouse.problem.spec import load_problem

        problem = load_problem(name, workspace)
        name, asked = problem.name, problem.argument
        ranked = problem.ranked_models
        try:
            by_id, source = load_target(problem, workspace)
        except LockedFileError:  # a submission is checked before its target is here
            read_submission(submission, [model.full_id for model in ranked], metric_key)
            raise
        scores = {m.full_id: by_id[m.model_id] for m in ranked if m.model_id in by_id}
        checked = read_submission(submission, tuple(scores), metric_key)
    _refuse_constant(scores, source, asked)
    if note := rounding_note(checked.scores, scores):
        click.echo(f"note: {note}", err=True)
    return _document(name, checked, scores, source, seed, resamples)


def _refuse_constant(scores: dict[str, float], source: dict[str, Any], asked: str) -> None:
    """No correlation with a constant is defined; only a file's is a locked file's fault."""
    if len(set(scores.values())) > 1:
        return
    same = "every model has the same target score: no correlation is defined"
    if source["kind"] == "file":
        raise LockedFileError(
            f"{source['path']}: {same}; put the file with the measured scores there"
        )
    remedy = (
        f"give the target more `contexts` and run `tokenmart recall --problem {asked}`"
        if source["kind"] == "recall"
        else "import scores that differ between models"
    )
    raise TokenmartError(f"{asked}: {same}; {remedy}")


def rounding_note(submitted: dict[str, float], target: dict[str, float]) -> str:
    """Where values that differ by rounding only have different ranks here; empty if nowhere.

    The verifier ranks the numbers as they are; `correlate` and `submit` take away the rounding of
    sums first, so that 0.1 + 0.2 and 0.3 tie.
    """
    x, y = (np.array([scores[model] for model in target]) for scores in (submitted, target))
    as_they_are, tied = spearman(x, y), spearman(without_rounding(x), without_rounding(y))
    if abs(as_they_are - tied) < SAME_SPEARMAN:
        return ""
    return (
        f"some scores differ by rounding only and count as different here (Spearman "
        f"{signed(as_they_are, 4)}); `tokenmart correlate` counts them as equal "
        f"({signed(tied, 4)}): round them, or submit with `tokenmart submit`"
    )


def _document(
    problem: str,
    submission: Submission,
    target: dict[str, float],
    target_source: dict[str, Any],
    seed: int,
    resamples: int,
) -> dict[str, Any]:
    """The verifier's document for a submission checked against the models of `target`.

    `target` is model → score; `target_source` is where it came from.
    """
    models = list(target)
    x = np.array([submission.scores[model] for model in models])
    y = np.array([target[model] for model in models])
    skipped_spearman, skipped = skipped_estimate(x, y, seed, resamples)
    stability = flag_stability(x, y, seed)
    exact = exact_skipped(x, y)
    return {
        "schema": SCHEMA,
        "problem": problem,
        "n": len(models),
        "spearman": _estimate(spearman_estimate(x, y, seed, resamples)),
        "pearson": {"value": number(pearson(x, y))},
        "skipped_spearman": _estimate(skipped_spearman)
        | {
            "filter": f"MinCovDet, chi2({CUTOFF}, 2)",
            "kept": skipped.kept,
            "dropped": _left_out(models, skipped),
            "note": skipped.note,
            "ci_note": _width_note(skipped_spearman.percentile, len(models)),
            "stability": {
                "random_states": stability.seeds,
                "same_points_dropped": round(stability.agreement, 6),
                "drop_share": {
                    model: round(float(share), 6)
                    for model, share in zip(models, stability.drop_share, strict=True)
                    if share > 0
                },
                "low": number(stability.value_low),
                "high": number(stability.value_high),
            },
            "exact": None
            if exact is None
            else {
                "value": number(exact.value),
                "kept": exact.kept,
                "dropped": _left_out(models, exact),
                "same_points": bool((exact.keep == skipped.keep).all()),
            },
        },
        "seed": seed,
        "resamples": resamples,
        "submission": submission.record,
        "target": target_source,
        "code": code_revision() | {"foreign_modules": foreign_modules(_COMPUTING)},
        "versions": versions(("tokenmart", *_COMPUTING)),
    }


def _left_out(models: list[str], skipped: Skipped) -> list[str]:
    return [model for model, keep in zip(models, skipped.keep, strict=True) if not keep]


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": number(estimate.value),
        "ci95": estimate.percentile.record,
        "ci95_bca": estimate.bca.record,
    }


def _width_note(interval: Interval, models: int) -> str:
    """The filter drops other points in each resample, and few models leave little to rank."""
    width = interval.high - interval.low
    if not width > UNINFORMATIVE_WIDTH:
        return ""
    return (
        f"the interval is {width:.2f} wide, of 2.00 possible: {models} models are too few to "
        "estimate this coefficient"
    )
