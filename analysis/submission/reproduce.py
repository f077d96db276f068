"""Rebuild a submission's scores from the warehouse and compare them with its bundle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.ranking import load_table
from analysis.submission.bundle import (
    BUNDLE_FILE,
    SCHEMA,
    SUBMISSION_FILE,
    VERIFY_FILE,
    documents_sha256,
)
from analysis.submission.submit import listed, scores_of
from analysis.submission.verifier import verify_problem
from warehouse.errors import TokenmartError
from warehouse.problem.spec import load_problem
from warehouse.sql.connection import connect_read_only
from warehouse.strict_json import StrictJsonError, read_json

if TYPE_CHECKING:
    from warehouse.paths import Workspace

RELATIVE_TOLERANCE = 1e-9
"""DuckDB's float sums vary in the last bits with the number of threads."""

_MAXIMUM_BYTES = 16 << 20


@dataclass(frozen=True)
class Comparison:
    """One comparison of `reproduce`: what, whether it holds, and the finding."""

    what: str
    holds: bool
    finding: str
    decisive: bool = True


def compare_with_warehouse(
    workspace: Workspace, folder: Path, problem_file: str | None = None
) -> list[Comparison]:
    """Rebuild the scores of a bundle from the warehouse and compare.

    Raises:
        TokenmartError: the folder isn't a bundle, or the warehouse lacks the metric.
    """
    bundle = _read(folder / BUNDLE_FILE)
    try:
        if bundle["schema"] != SCHEMA:
            raise TokenmartError(
                f"{folder / BUNDLE_FILE}: schema is {bundle['schema']}, not {SCHEMA}"
            )
        name = problem_file or bundle["problem"]
        metric, variant = bundle["metric"]["metric"], bundle["metric"]["variant"]
        negate = bundle["metric"]["negated"]
        seed, resamples = bundle["verification"]["seed"], bundle["verification"]["resamples"]
        recorded_submission = bundle["submission"]["sha256"]
        files = bundle["files"]
    except (KeyError, TypeError) as error:
        raise TokenmartError(
            f"{folder / BUNDLE_FILE}: field {error} is missing or malformed; "
            "restore the bundle that `tokenmart submit` wrote"
        ) from error
    problem = load_problem(name, workspace)
    table = load_table(problem, workspace)
    column = table.column(metric, variant)
    rebuilt = scores_of(table, column, negate)
    path = folder / SUBMISSION_FILE
    result = verify_problem(workspace, name, path, "score", seed, resamples)
    with connect_read_only(workspace) as connection:
        documents = documents_sha256(connection, problem.name)
    found = result["submission"]["sha256"]
    submitted = _read(path)
    return [
        _same("submission file", recorded_submission, found),
        _compare_scores(submitted, rebuilt),
        _compare_results(_read(folder / VERIFY_FILE), result),
        _same("target", files["target"].get("sha256"), result["target"].get("sha256")),
        _same("proxy documents", files["proxy"].get("documents_sha256"), documents),
        _same("code revision", bundle["code"]["revision"], result["code"]["revision"], False),
    ]


def _compare_scores(submitted: Any, rebuilt: dict[str, float]) -> Comparison:
    moved = [
        f"{model} {submitted.get(model)!r} → {value!r}"
        for model, value in rebuilt.items()
        if not math.isclose(submitted.get(model, math.nan), value, rel_tol=RELATIVE_TOLERANCE)
    ]
    finding = listed(moved) if moved else f"{len(rebuilt)} equal to {RELATIVE_TOLERANCE:g} relative"
    return Comparison("scores from the warehouse", not moved, finding)


def _compare_results(recorded: Any, result: dict[str, Any]) -> Comparison:
    pairs = {
        name: (recorded[name]["value"], result[name]["value"])
        for name in ("spearman", "pearson", "skipped_spearman")
    }
    moved = [
        f"{name} {before} → {after}"
        for name, (before, after) in pairs.items()
        if before != after
        and (before is None or after is None or not math.isclose(before, after, abs_tol=1e-9))
    ]
    finding = listed(moved) or f"Spearman {result['spearman']['value']}, as recorded"
    return Comparison("verifier output", not moved, finding)


def _same(what: str, recorded: Any, found: Any, decisive: bool = True) -> Comparison:
    holds = recorded == found
    finding = f"{found}" if holds else f"recorded {recorded}, found {found}"
    return Comparison(what, holds, finding, decisive)


def _read(path: Path) -> Any:
    try:
        return read_json(path, _MAXIMUM_BYTES).content
    except StrictJsonError as error:
        raise TokenmartError(
            f"{path}: {error}; point at a folder that `tokenmart submit` wrote"
        ) from error
