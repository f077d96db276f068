"""Submission files: one finite number per model, read strictly."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from warehouse.errors import BadSubmissionError
from warehouse.strict_json import StrictJsonError, kind, read_json, shown

MAXIMUM_BYTES = 4 << 20
MODEL_KEY = "model"


@dataclass(frozen=True)
class Submission:
    """A submission that passed every check.

    scores: model → score, in the order of the problem's models.
    sha256: of the very bytes that were parsed.
    """

    path: Path
    sha256: str
    form: Literal["object", "rows"]
    scores: dict[str, float]


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
    form: Literal["object", "rows"]
    if isinstance(file.content, dict):
        form, found = "object", file.content
    elif isinstance(file.content, list):
        form, found = "rows", _rows(path, file.content, metric_key)
    else:
        _refuse(
            path,
            "submission must be an object {model: score} or a list of rows, "
            f"found {kind(file.content)}",
        )
    _check_models(path, found, models)
    scores = {model: _score(path, model, found[model]) for model in models}
    if len(set(scores.values())) == 1:
        value = next(iter(scores.values()))
        _refuse(path, f"every model has the score {value!r}: no correlation is defined")
    return Submission(path=path, sha256=file.sha256, form=form, scores=scores)


def _rows(path: Path, rows: list[Any], metric_key: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
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
        if model in found:
            _refuse(path, f"row {index} repeats the model {shown(model)}")
        found[model] = row[metric_key]
    return found


def _check_models(path: Path, found: Iterable[str], models: Sequence[str]) -> None:
    given = set(found)
    missing = [model for model in models if model not in given]
    extra = sorted(given - set(models))
    if not missing and not extra:
        return
    parts = []
    if missing:
        parts.append(f"missing {len(missing)} of {len(models)} models: {', '.join(missing)}")
    if extra:
        parts.append(f"not in the model set: {_some([_hinted(name, missing) for name in extra])}")
    _refuse(path, "; ".join(parts))


def _hinted(name: str, missing: list[str]) -> str:
    near = difflib.get_close_matches(name[:200], missing, n=1, cutoff=0.8)
    return shown(name) + (f" (did you mean {near[0]}?)" if near else "")


def _some(names: list[str], most: int = 20) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def _keys(row: dict[str, Any]) -> str:
    return _some([shown(key) for key in row], 8) or "no fields"


def _score(path: Path, model: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(path, f"score of {model} must be a number, found {kind(value)} {shown(value)}")
    try:
        score = float(value)
    except OverflowError:
        score = math.inf
    if not math.isfinite(score):
        _refuse(path, f"score of {model} must be a finite number, found {str(value)[:40]}")
    return score


def _named(path: Path) -> str:
    """The path as text that prints anywhere, on one line."""
    text = str(path)
    return text if text.isprintable() and text.isascii() else shown(text, 200)


def _refuse(path: Path, defect: str) -> NoReturn:
    raise BadSubmissionError(f"{_named(path)}: {defect}")
