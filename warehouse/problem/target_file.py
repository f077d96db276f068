"""Reader of downstream target files: one finite overall score per model.

Accepted, as the locked statement allows: an object `{model: score}`; an object
`{model: {"overall": score, …}}`; a list of rows with `model` and `overall`; or a wrapper
object that contains one of these under `models`, `results` or `scores`. Light to import: the
verifier needs it without pyarrow, torch or dbt.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warehouse.errors import LockedFileError
from warehouse.paths import Workspace
from warehouse.sources.lock_file import check_sha256
from warehouse.strict_json import StrictJsonError, kind, read_json, shown

MAXIMUM_BYTES = 64 << 20
SCORE_KEY = "overall"
MODEL_KEY = "model"
WRAPPER_KEYS = ("models", "results", "scores")


@dataclass(frozen=True)
class Target:
    """A target file: full model id → overall score, and the hash of the bytes read.

    first_use: whether this reading recorded the hash in the lock file.
    """

    path: Path
    sha256: str
    scores: dict[str, float]
    first_use: bool = False

    def only(self, models: Iterable[str]) -> dict[str, float]:
        """The scores of the given models, in their order.

        Raises:
            LockedFileError: a model has no score.
        """
        wanted = list(models)
        missing = [model for model in wanted if model not in self.scores]
        if missing:
            raise LockedFileError(
                f"{self.path}: no {SCORE_KEY} score for {', '.join(missing)}; "
                "use the target file that belongs to this problem",
                code="target-models",
                where=", ".join(missing),
            )
        return {model: self.scores[model] for model in wanted}


def read_target(path: Path, how_to_get: str = "place it there") -> Target:
    """Read a target file.

    Args:
        how_to_get: what to do where it is missing.

    Raises:
        LockedFileError: missing (`locked-file-missing`), or not in an accepted format
            (`target-format`).
    """
    if not path.exists():
        what = f"{path}: target file is missing; {how_to_get}"
        raise LockedFileError(what, code="locked-file-missing", where=path)
    try:
        file = read_json(path, MAXIMUM_BYTES)
    except StrictJsonError as error:
        raise _refused(path, str(error)) from error
    scores = _scores(path, _unwrap(path, file.content))
    if not scores:
        raise _refused(path, "contains no model")
    return Target(path=path, sha256=file.sha256, scores=scores)


def read_locked_target(
    workspace: Workspace,
    problem: str,
    path: Path,
    models: Iterable[str],
    *,
    argument: str = "",
    some: bool = False,
) -> Target:
    """Read a problem's target file and check it against its lock file, or record it there.

    Args:
        path: of the target file, relative to the workspace's root.
        models: full ids of the problem's models, without which the file isn't even recorded.
        argument: the value of `--problem`, if it isn't the name.
        some: a score for one of them is enough.

    Raises:
        LockedFileError: missing, malformed, changed since it was locked, or without the scores of
            the models.
    """
    argument = argument or problem
    target = read_target(
        workspace.root / path,
        f"download it with `tokenmart data fetch --problem {argument} --only target` or place it "
        f"by hand; to preregister a metric, first run `tokenmart preregister --problem {argument}`",
    )
    wanted = list(models)
    if not some or not any(model in target.scores for model in wanted):
        target.only(wanted)
    return replace(target, first_use=check_sha256(workspace, problem, path, target.sha256))


def _refused(path: Path, what: str, place: str = "") -> LockedFileError:
    where = f"{path}: {place}" if place else str(path)
    return LockedFileError(f"{where}: target file {what}", code="target-format", where=where)


def _unwrap(path: Path, content: Any) -> Any:
    """Step into a wrapper object: one that contains exactly one known key with a container."""
    if not isinstance(content, dict):
        return content
    if content.get("lower_is_better") is True or content.get("higher_is_better") is False:
        raise _refused(path, "states that lower scores are better; reverse their sign")
    held = [key for key in WRAPPER_KEYS if isinstance(content.get(key), dict | list)]
    if len(held) > 1:
        raise _refused(path, f"has scores under {' and '.join(held)}; keep one")
    return content[held[0]] if held else content


def _scores(path: Path, content: Any) -> dict[str, float]:
    if isinstance(content, dict):
        return {model: _score(path, model, value) for model, value in content.items()}
    if not isinstance(content, list):
        raise _refused(path, f"must be an object or a list of rows, found {kind(content)}")
    scores: dict[str, float] = {}
    for index, row in enumerate(content):
        model = row.get(MODEL_KEY) if isinstance(row, dict) else None
        if not isinstance(model, str):
            what = f"needs an object with a string under {MODEL_KEY!r}, found {shown(row)}"
            raise _refused(path, what, f"row {index}")
        if model in scores:
            raise _refused(path, f"repeats {shown(model)}", f"row {index}")
        scores[model] = _score(path, model, row)
    return scores


def _score(path: Path, model: str, value: Any) -> float:
    if isinstance(value, dict):
        value = value.get(SCORE_KEY)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refused(path, f"needs a number, found {kind(value)} {shown(value)}", shown(model))
    if not abs(value) <= sys.float_info.max:
        raise _refused(path, f"needs a finite number, found {shown(value)}", shown(model))
    return float(value)
