"""Rebuild a submission's bundle from the warehouse and compare every number with it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from analysis.submission.bundle import (
    BUNDLE_FILE,
    PAGE_FILE,
    SCHEMA,
    SUBMISSION_FILE,
    VERIFY_FILE,
    bundle_page,
)
from analysis.submission.submit import SubmissionRequest, listed, rebuild
from warehouse.errors import TokenmartError
from warehouse.strict_json import StrictJsonError, read_json

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
    made = rebuild(workspace, request, folder / SUBMISSION_FILE)
    comparisons = [
        _compared("scores from the warehouse", submitted, made.scores),
        _compared("verifier output", _numbers(recorded), _numbers(made.verification)),
    ]
    for name in sorted(bundle.keys() | made.bundle.keys()):
        what = _NAMES.get(name, name)
        found = _compared(what, bundle.get(name), made.bundle.get(name), name not in _MAY_MOVE)
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


def _request(path: Path, bundle: Any, problem_file: str | None) -> SubmissionRequest:
    """The request recorded in the bundle."""
    if not isinstance(bundle, dict):
        raise TokenmartError(f"{path}: not an object; {_REMEDY}")
    if bundle.get("schema") != SCHEMA:
        raise TokenmartError(
            f"{path}: schema is {json.dumps(bundle.get('schema'))[:60]}, not {SCHEMA}; {_REMEDY}"
        )
    kinds: tuple[tuple[tuple[str, ...], type], ...] = (
        (("problem",), str),
        (("metric", "metric"), str),
        (("metric", "variant"), str),
        (("metric", "negated"), bool),
        (("verification", "seed"), int),
        (("verification", "resamples"), int),
    )
    found: list[Any] = []
    for keys, kind in kinds:
        value: Any = bundle
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        wrong = not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool)
        if wrong or (isinstance(value, int) and not 0 <= value < 2**32):
            raise TokenmartError(
                f"{path}: field {'.'.join(keys)} is missing or malformed; {_REMEDY}"
            )
        found.append(value)
    problem, metric, variant, negate, seed, resamples = found
    if not 100 <= resamples <= 1_000_000:
        raise TokenmartError(f"{path}: field verification.resamples is {resamples}; {_REMEDY}")
    return SubmissionRequest(
        problem=problem_file or problem,
        metric=f"{metric}/{variant}",
        negate=negate,
        unofficial=True,
        seed=seed,
        resamples=resamples,
        as_of=_as_of(path, bundle),
    )


def _as_of(path: Path, bundle: dict[str, Any]) -> str:
    """Time at which the bundle was made: metrics tested later don't count against it."""
    claims = bundle.get("claims")
    value = claims.get("as_of") if isinstance(claims, dict) else None
    if not isinstance(value, str):
        raise TokenmartError(f"{path}: field claims.as_of is missing or malformed; {_REMEDY}")
    return value


def _numbers(verification: Any) -> Any:
    """The verifier's document without what may move."""
    if not isinstance(verification, dict):
        return verification
    return {name: value for name, value in verification.items() if name not in _MAY_MOVE}


def _compared(what: str, recorded: Any, found: Any, decisive: bool = True) -> Comparison:
    moved = list(_differences(recorded, found, ""))
    values = sum(1 for _ in _leaves(found))
    finding = listed(moved) if moved else f"{values} value{'s' * (values != 1)}, as recorded"
    return Comparison(what, not moved, finding, decisive)


def _differences(recorded: Any, found: Any, place: str) -> Iterator[str]:
    """Every place where two JSON values differ, numbers beyond the tolerance."""
    if isinstance(recorded, Mapping) and isinstance(found, Mapping):
        for key in [*found, *(key for key in recorded if key not in found)]:
            where = f"{place}.{key}" if place else str(key)
            if key not in recorded or key not in found:
                yield f"{where} {'not recorded' if key in found else 'recorded, not found'}"
            else:
                yield from _differences(recorded[key], found[key], where)
    elif isinstance(recorded, list | tuple) and isinstance(found, list | tuple):
        if len(recorded) != len(found):
            yield f"{place} recorded {len(recorded)} entries, found {len(found)}"
        else:
            for index, (before, after) in enumerate(zip(recorded, found, strict=True)):
                yield from _differences(before, after, f"{place}[{index}]")
    elif not _equal(recorded, found):
        yield f"{place} {_shown(recorded)} → {_shown(found)}".strip()


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


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value


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
    lines = zip(text.splitlines(), expected.splitlines(), strict=False)
    line = next((i for i, (a, b) in enumerate(lines, start=1) if a != b), len(text.splitlines()))
    what = f"{path.name} line {line} differs from the page made from the bundle"
    return Comparison("page", False, what)


def _read(path: Path) -> Any:
    try:
        return read_json(path, _MAXIMUM_BYTES).content
    except StrictJsonError as error:
        raise TokenmartError(
            f"{path}: {error}; point at a folder that `tokenmart submit` wrote"
        ) from error
