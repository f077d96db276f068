"""Rebuild a submission's bundle from the warehouse and compare every number with it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from analysis.ranking.loading import record_tested
from analysis.submission.bundle import (
    BUNDLE_FILE,
    PAGE_FILE,
    SCHEMA,
    SUBMISSION_FILE,
    VERIFY_FILE,
    bundle_page,
)
from analysis.submission.submit import (
    NAMED,
    SubmissionRequest,
    build_submission,
    find_subject,
    scores_of,
)
from warehouse.errors import TokenmartError
from warehouse.strict_json import StrictJsonError, read_json
from warehouse.terminal import listed

if TYPE_CHECKING:
    from warehouse.paths import Workspace

ABSENT = "not there"
"""Of two JSON values, what only one has; null is a value."""

RELATIVE_TOLERANCE = 1e-9
"""DuckDB's float sums vary in the last bits with the number of threads."""

_MAXIMUM_BYTES = 16 << 20

_MAY_MOVE = ("code", "versions", "extraction_code")
"""Reported, but no failure: other code on other packages may give the same numbers."""

_NAMES = {
    "submission": "submission file",
    "files": "proxy documents and target",
    "code": "code revision",
    "extraction_code": "code revision of the extraction",
    "claims": "metrics tested, p-values and preregistration",
}


@dataclass(frozen=True)
class Comparison:
    """One comparison of `reproduce`: subject, whether equal, and the finding."""

    what: str
    holds: bool
    finding: str
    decisive: bool = True


def compare_with_warehouse(
    workspace: Workspace, folder: Path, problem_file: str | None = None
) -> list[Comparison]:
    """Recompute everything that a bundle states and compare it, value by value.

    Raises:
        TokenmartError: the folder isn't a bundle, or the metric is not in the warehouse.
    """
    bundle = _read(folder / BUNDLE_FILE)
    request = _request(folder / BUNDLE_FILE, bundle, problem_file)
    recorded, submitted = _read(folder / VERIFY_FILE), _read(folder / SUBMISSION_FILE)
    subject = find_subject(workspace, request)
    verification, made = build_submission(folder / SUBMISSION_FILE, subject, request)
    comparisons = [
        _compared("scores from the warehouse", submitted, scores_of(subject)),
        _compared("verifier output", _without_code(recorded), _without_code(verification)),
    ]
    for name in sorted(bundle.keys() | made.keys()):
        parts = bundle.get(name, ABSENT), made.get(name, ABSENT)
        comparisons.append(_compared(_NAMES.get(name, name), *parts, name not in _MAY_MOVE))
    try:
        page = bundle_page(bundle, recorded) == (folder / PAGE_FILE).read_text(encoding="utf-8")
    except Exception:  # whatever an edited bundle does to the template, or the file to its reader
        page = False
    record_tested(subject.table, workspace)
    finding = "equal to" if page else f"{PAGE_FILE} differs from"
    return [*comparisons, Comparison("page", page, f"{finding} the page made from the bundle")]


def _request(path: Path, bundle: dict[str, Any], problem_file: str | None) -> SubmissionRequest:
    """The request recorded in the bundle; metrics tested after `as_of` don't count."""
    try:
        if bundle["schema"] != SCHEMA:
            raise KeyError("schema")
        metric, verification = bundle["metric"], bundle["verification"]
        return SubmissionRequest(
            problem=problem_file or bundle["problem"],
            metric=f"{metric['metric']}/{metric['variant']}",
            unofficial=True,
            seed=verification["seed"],
            resamples=verification["resamples"],
            as_of=bundle["claims"]["as_of"],
        )
    except (KeyError, TypeError, ValidationError) as error:
        what = error.errors()[0]["loc"][0] if isinstance(error, ValidationError) else error
        raise TokenmartError(
            f"{path}: field {what} is missing or malformed; restore the bundle that `tokenmart "
            "submit` wrote",
            code="no-bundle",
            where=path,
        ) from error


def _without_code(verification: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in verification.items() if name not in _MAY_MOVE}


def _compared(what: str, recorded: Any, recomputed: Any, decisive: bool = True) -> Comparison:
    moved = list(differences(recorded, recomputed))
    return Comparison(what, not moved, listed(moved, NAMED) or "as recorded", decisive)


def differences(recorded: Any, recomputed: Any, place: str = "") -> Iterator[str]:
    """Every place where two JSON values differ, numbers beyond the tolerance."""
    if isinstance(recorded, dict) and isinstance(recomputed, dict):
        for key in recomputed | recorded:
            before, after = recorded.get(key, ABSENT), recomputed.get(key, ABSENT)
            yield from differences(before, after, f"{place}.{key}".strip("."))
    elif isinstance(recorded, list | tuple) and isinstance(recomputed, list | tuple):
        pairs = zip_longest(recorded, recomputed, fillvalue=ABSENT)
        for index, (before, after) in enumerate(pairs):
            yield from differences(before, after, f"{place}.{index}".strip("."))
    elif not _equal(recorded, recomputed):
        before, after = (json.dumps(value, default=str)[:60] for value in (recorded, recomputed))
        yield f"{place} {before} → {after}".strip()


def _equal(recorded: Any, recomputed: Any) -> bool:
    if isinstance(recorded, int | float) and isinstance(recomputed, int | float):
        if isinstance(recorded, bool) or isinstance(recomputed, bool):
            return recorded is recomputed
        if isinstance(recorded, float) or isinstance(recomputed, float):
            small = RELATIVE_TOLERANCE * 1e-3
            return math.isclose(recorded, recomputed, rel_tol=RELATIVE_TOLERANCE, abs_tol=small)
    return bool(recorded == recomputed)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path, _MAXIMUM_BYTES).content
        if not isinstance(content, dict):
            raise StrictJsonError("is not an object")
    except StrictJsonError as error:
        raise TokenmartError(f"{path}: {error}", code="no-bundle", where=path) from error
    return content
