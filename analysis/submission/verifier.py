"""The official scorer: a checked submission against a locked target, as one JSON document.

Deterministic: the same files, seed and code give the same document. Its fields are
documented by `analysis/submission/verify_result.schema.json`. Imports neither torch nor dbt.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from analysis.ranking.leaderboard import interval_record, number
from analysis.ranking.target import load_target
from analysis.statistics.bootstrap import Correlations, Estimate, Interval
from analysis.statistics.skipped import CUTOFF, Skipped, exact_skipped, flag_stability
from analysis.submission import locked_problem as locked
from analysis.submission.format import Submission, read_submission
from warehouse.errors import LockedFileError, StorageError, TokenmartError
from warehouse.files import refuse_protected, storage_errors, write_whole
from warehouse.paths import Workspace
from warehouse.problem.target_file import read_locked_target
from warehouse.store.provenance import code_revision, foreign_modules, versions

SCHEMA = "tokenmart/verify_result/1"
_COMPUTING = ("numpy", "scipy", "scikit-learn")
UNINFORMATIVE_WIDTH = 1.0
"""An interval wider than half of the range can't distinguish a strong correlation from none."""


def verify_problem(
    workspace: Workspace,
    name: str,
    submission: Path,
    metric_key: str,
    seed: int,
    resamples: int,
) -> dict[str, Any]:
    """Verify a submission against a problem's target; the locked one needs no problem file.

    Returns:
        The document.

    Raises:
        TokenmartError: the problem has no target scores (yet), or those measured are all equal.
        LockedFileError: the target file is missing, malformed, changed or the same for all models
            (exit code 3).
        BadSubmissionError: the submission breaks the contract (exit code 2).
    """
    note, asked = "", name
    if name == locked.PROBLEM:
        checked = read_submission(submission, locked.MODELS, metric_key)
        target = read_locked_target(workspace, name, locked.TARGET_PATH, locked.MODELS)
        scores = target.only(locked.MODELS)
        path = locked.TARGET_PATH.as_posix()
        source: dict[str, Any] = {"kind": "file", "path": path, "sha256": target.sha256}
        if target.first_use:
            note = f"note: recorded sha256 of {path} on first use"
    else:
        from warehouse.problem.spec import load_problem

        problem = load_problem(name, workspace)
        name, asked = problem.name, problem.asked
        ranked = problem.ranked_models
        try:
            by_id, source = load_target(problem, workspace)
        except LockedFileError:  # a submission is checked before its target is here
            read_submission(submission, [model.full_id for model in ranked], metric_key)
            raise
        scores = {m.full_id: by_id[m.model_id] for m in ranked if m.model_id in by_id}
        checked = read_submission(submission, tuple(scores), metric_key)
    if note:
        click.echo(note, err=True)
    _refuse_constant(scores, source, asked)
    return verification(name, checked, metric_key, scores, source, seed, resamples)


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


def verification(
    problem: str,
    submission: Submission,
    metric_key: str,
    target: dict[str, float],
    target_source: dict[str, Any],
    seed: int,
    resamples: int,
) -> dict[str, Any]:
    """The verifier's document for a checked submission and target scores.

    Args:
        problem: its name.
        submission: already checked against the keys of `target`.
        metric_key: as given on the command line.
        target: model → score, in the submission's order.
        target_source: what to say about where the target came from.
        seed: of bootstrap and MCD filter.
        resamples: of each interval.
    """
    models = list(target)
    x = np.array([submission.scores[model] for model in models])
    y = np.array([target[model] for model in models])
    found = Correlations(x, y, seed, resamples)
    stability = flag_stability(x, y, seed)
    exact = exact_skipped(x, y)
    return {
        "schema": SCHEMA,
        "problem": problem,
        "n": found.n,
        "spearman": _estimate(found.spearman),
        "pearson": {"value": number(found.pearson)},
        "skipped_spearman": _estimate(found.skipped_spearman)
        | {
            "filter": f"MinCovDet, chi2({CUTOFF}, 2)",
            "kept": found.skipped.kept,
            "dropped": _left_out(models, found.skipped),
            "note": found.skipped.note,
            "ci_note": _width_note(found.skipped_spearman.percentile, found.n),
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
                "same_points": bool((exact.keep == found.skipped.keep).all()),
            },
        },
        "seed": seed,
        "resamples": resamples,
        "submission": {
            "path": str(submission.path),
            "sha256": submission.sha256,
            "format": submission.form,
            "metric_key": metric_key if submission.form == "rows" else None,
        },
        "target": target_source,
        "code": code_revision() | {"foreign_modules": foreign_modules(_COMPUTING)},
        "versions": versions(("tokenmart", *_COMPUTING)),
    }


def _left_out(models: list[str], skipped: Skipped) -> list[str]:
    return [model for model, keep in zip(models, skipped.keep, strict=True) if not keep]


def show_result(
    result: dict[str, Any],
    workspace: Workspace,
    submission: Path,
    out: Path | None,
    as_json: bool,
    force: bool = False,
) -> None:
    """Save the document where asked, never over one of the files it came from, and print it.

    An earlier result is replaced; any other file with `force` only.

    Raises:
        StorageError: `out` is one of the inputs or can't be written.
        TokenmartError: `out` is a file that the project must keep.
    """
    text = json.dumps(result, indent=2, allow_nan=False)
    if out is not None:
        _save(text, workspace, submission, out, force)
    click.echo(text if as_json else result_text(result))


def _save(text: str, workspace: Workspace, submission: Path, out: Path, force: bool) -> None:
    inputs = (submission, workspace.root / locked.TARGET_PATH)
    with storage_errors(out):
        is_input = any(out.exists() and path.exists() and out.samefile(path) for path in inputs)
    if is_input:
        raise StorageError(f"{out}: --out names an input file; choose another path")
    refuse_protected(out, workspace, force=force, own=b'"skipped_spearman"')
    write_whole(out, text + "\n")


def result_text(result: dict[str, Any]) -> str:
    """The document in a few lines of plain text."""
    skipped, target = result["skipped_spearman"], result["target"]
    stability = skipped["stability"]
    dropped = ", ".join(skipped["dropped"]) or "none"
    revision = result["code"]["revision"] or "unknown (not a git checkout)"
    changes = " (with local changes)" if result["code"]["dirty"] else ""
    lines = [
        f"problem            {result['problem']}, n = {result['n']} models",
        f"Spearman           {_line(result['spearman'])}",
        f"Pearson            {_shown(result['pearson']['value'])}",
        f"skipped Spearman   {_line(skipped)}",
        f"  kept             {skipped['kept']} of {result['n']}; dropped: {dropped}",
        f"  stability        same points dropped under {stability['same_points_dropped']:.0%} of "
        f"{stability['random_states']} random states; value {_shown(stability['low'])} to "
        f"{_shown(stability['high'])}",
        f"seed, resamples    {result['seed']}, {result['resamples']}",
        f"submission sha256  {result['submission']['sha256']}",
        f"target sha256      {target['sha256']} ({target.get('path') or 'measured scores'})",
        f"code revision      {revision}{changes}",
    ]
    if foreign := result["code"]["foreign_modules"]:
        lines.append(f"NOT THE INSTALLED  {', '.join(foreign)}: something is before them")
    if exact := skipped["exact"]:
        points = "the same points" if exact["same_points"] else "OTHER POINTS: this seed missed it"
        lines.insert(
            6,
            f"  best of all halves {_shown(exact['value'])}, {exact['kept']} kept, {points}",
        )
    lines[6:6] = [
        f"  note             {note}" for note in (skipped["note"], skipped["ci_note"]) if note
    ]
    return "\n".join(lines)


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": number(estimate.value),
        "ci95": interval_record(estimate.percentile),
        "ci95_bca": interval_record(estimate.bca),
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


def _shown(value: float | None) -> str:
    return "undefined" if value is None else f"{value:+.4f}"


def _line(estimate: dict[str, Any]) -> str:
    interval = estimate["ci95"]
    text = (
        f"{_shown(estimate['value'])}   95% CI {_shown(interval['low'])} to "
        f"{_shown(interval['high'])} ({interval['method']} bootstrap"
    )
    if interval["degenerate_resamples"]:
        text += f", {interval['degenerate_resamples']} degenerate resamples left out"
    return text + ")"
