"""Rebuild a submission's bundle from the warehouse and compare every number with it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

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
from warehouse.terminal import counted, listed

if TYPE_CHECKING:
    from warehouse.paths import Workspace

RELATIVE_TOLERANCE = 1e-9
"""DuckDB's float sums vary in the last bits with the number of threads."""

_MAXIMUM_BYTES = 16 << 20
_REMEDY = "restore the bundle that `tokenmart submit` wrote"

_MAY_MOVE = ("code", "versions", "extraction_code")
"""Reported, but no failure: other code on other packages may give the same numbers."""


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
    """Redo everything that a bundle states and compare it, value by value.

    Raises:
        TokenmartError: the folder isn't a bundle, or the metric is not in the warehouse.
    """
    bundle = _read(folder / BUNDLE_FILE)
    request = _request(folder / BUNDLE_FILE, bundle, problem_file)
    recorded = _read(folder / VERIFY_FILE)
    submitted = _read(folder / SUBMISSION_FILE)
    subject = find_subject(workspace, request)
    verification, made = build_submission(folder / SUBMISSION_FILE, subject, request)
    comparisons = [
        _compared("scores from the warehouse", submitted, scores_of(subject, request.negate)),
        _compared("verifier output", _numbers(recorded), _numbers(verification)),
    ]
    for name in sorted(bundle.keys() | made.keys()):
        what = _NAMES.get(name, name)
        found = _compared(what, bundle.get(name), made.get(name), name not in _MAY_MOVE)
        comparisons.append(found)
    comparisons.append(_page(folder / PAGE_FILE, bundle, recorded))
    return comparisons


_NAMES = {
    "submission": "submission file",
    "files": "proxy documents and target",
    "code": "code revision",
    "extraction_code": "code revision of the extraction",
    "claims": "metrics tested, p-values and preregistration",
}


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _Metric(_Strict):
    metric: str
    variant: str
    negated: bool


class _Verification(_Strict):
    seed: int = Field(ge=0, lt=2**32)
    resamples: int = Field(ge=100, le=1_000_000)


class _Claims(_Strict):
    as_of: str


class _Request(_Strict):
    """The part of a bundle that records the request; metrics tested after `as_of` don't count."""

    problem: str
    metric: _Metric
    verification: _Verification
    claims: _Claims


def _request(path: Path, bundle: dict[str, Any], problem_file: str | None) -> SubmissionRequest:
    """The request recorded in the bundle."""
    if bundle.get("schema") != SCHEMA:
        raise TokenmartError(
            f"{path}: schema is {json.dumps(bundle.get('schema'))[:60]}, not {SCHEMA}; {_REMEDY}"
        )
    try:
        found = _Request.model_validate(bundle)
    except ValidationError as error:
        field = ".".join(map(str, error.errors()[0]["loc"]))
        raise TokenmartError(f"{path}: field {field} is missing or malformed; {_REMEDY}") from error
    return SubmissionRequest(
        problem=problem_file or found.problem,
        metric=f"{found.metric.metric}/{found.metric.variant}",
        negate=found.metric.negated,
        unofficial=True,
        seed=found.verification.seed,
        resamples=found.verification.resamples,
        as_of=found.claims.as_of,
    )


def _numbers(verification: dict[str, Any]) -> dict[str, Any]:
    """The verifier's document without what may move."""
    return {name: value for name, value in verification.items() if name not in _MAY_MOVE}


def _compared(what: str, recorded: Any, found: Any, decisive: bool = True) -> Comparison:
    moved = list(_differences(recorded, found))
    same = f"{counted(len(_leaves(found)), 'value')}, as recorded"
    return Comparison(what, not moved, listed(moved, NAMED) if moved else same, decisive)


def _differences(recorded: Any, found: Any) -> Iterator[str]:
    """Every place where two JSON values differ, numbers beyond the tolerance."""
    before, after = _leaves(recorded), _leaves(found)
    for place in after | before:
        where = ".".join(map(str, place))
        if place not in before or place not in after:
            yield f"{where or 'the whole'}: {'not recorded' if place in after else 'not found now'}"
        elif not _equal(before[place], after[place]):
            yield f"{where} {_shown(before[place])} → {_shown(after[place])}".strip()


def _leaves(value: Any, place: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], Any]:
    """What a JSON value contains by its place: keys and indices; a part that is empty is kept."""
    inside: dict[str | int, Any] = {}
    if isinstance(value, dict):
        inside = value
    elif isinstance(value, list | tuple):
        value = list(value)
        inside = dict(enumerate(value))
    if not inside:
        return {place: value}
    parts = (_leaves(part, (*place, key)) for key, part in inside.items())
    return {where: leaf for part in parts for where, leaf in part.items()}


def _equal(recorded: Any, found: Any) -> bool:
    numbers = (int, float)
    if isinstance(recorded, bool) or isinstance(found, bool):
        return recorded is found
    if isinstance(recorded, int) and isinstance(found, int):
        return recorded == found
    if isinstance(recorded, numbers) and isinstance(found, numbers):
        return math.isclose(
            recorded, found, rel_tol=RELATIVE_TOLERANCE, abs_tol=RELATIVE_TOLERANCE * 1e-3
        )
    return bool(recorded == found)


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:59] + "…"


def _page(path: Path, bundle: dict[str, Any], recorded: dict[str, Any]) -> Comparison:
    """The page for readers against the bundle it was made from."""
    try:
        text = path.read_text(encoding="utf-8")
        expected = bundle_page(bundle, recorded)
    except (OSError, ValueError) as error:
        return Comparison("page", False, f"{path.name} can't be read ({error})")
    except (TemplateError, TypeError, AttributeError, KeyError) as error:
        return Comparison("page", False, f"can't be made from the bundle ({error})")
    if text == expected:
        return Comparison("page", True, "equal to the page made from the bundle")
    return Comparison("page", False, f"{path.name} differs from the page made from the bundle")


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path, _MAXIMUM_BYTES).content
    except StrictJsonError as error:
        raise TokenmartError(
            f"{path}: {error}; point at a folder that `tokenmart submit` wrote"
        ) from error
    if not isinstance(content, dict):
        raise TokenmartError(f"{path}: not an object; {_REMEDY}")
    return content
