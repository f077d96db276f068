"""The file of a problem's pre-registrations: entries that are added, never changed.

`data/preregistered/<problem>.json` is meant to be committed. Each entry carries a hash over its own
content and that of the entry before, so that an edit is noticed. Nobody can be kept from writing
a whole file anew: what proves the date is the commit, or the hash shown to somebody else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError

from analysis.preregistration.definition import RegisteredMetric, define
from warehouse.errors import TokenmartError
from warehouse.files import storage_errors, write_whole
from warehouse.problem.problem_files import namesake
from warehouse.problem.series import series_of
from warehouse.sources.lock_file import name_in, recorded_files
from warehouse.store.provenance import code_revision
from warehouse.strict_json import StrictJsonError, read_json

if TYPE_CHECKING:
    from warehouse.paths import Workspace
    from warehouse.problem.kinds import Ranked
    from warehouse.problem.spec import Problem

SCHEMA = "tokenmart/preregistration/1"
RULE = (
    "one-sided permutation test of Spearman's rho in the stated direction, series of models "
    "permuted within families, the largest of all metrics registered for the problem"
)
_MAXIMUM_BYTES = 4 << 20


class RegisteredModel(BaseModel):
    """A model of the study, with the groups that say what it is independent of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    full_id: str
    family: str
    kind: str


class Entry(BaseModel):
    """One pre-registration.

    target: `unknown` when no label was recorded yet, else what was already there.
    previous: sha256 of the entry before, empty for the first.
    sha256: over everything else.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int
    problem: str
    metrics: tuple[RegisteredMetric, ...]
    models: tuple[RegisteredModel, ...]
    rule: str
    level: float
    seed: int
    code: dict[str, str | bool | None]
    target: str
    recorded_at: str
    previous: str
    sha256: str

    @property
    def before_labels(self) -> bool:
        """Whether it was written before any label was recorded here."""
        return self.target == "unknown"

    def digest(self) -> str:
        """The hash that `sha256` must be."""
        content = self.model_dump(mode="json", exclude={"sha256"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def register(
    workspace: Workspace,
    problem: Problem,
    metrics: Sequence[str],
    level: float,
    seed: int,
    labels_known: bool,
) -> Entry:
    """Add an entry to the problem's file.

    Args:
        workspace: the checkout.
        problem: whose target the metrics are to predict.
        metrics: `METRIC/VARIANT` or `METRIC/VARIANT:DIRECTION`.
        level: of the test, shared by all metrics registered for the problem.
        seed: of the test.
        labels_known: write it although labels are recorded, and say so in the entry.

    Raises:
        TokenmartError: labels are recorded and `labels_known` is false, a metric isn't there or is
            registered already, the problem has the name of another one, or the file was edited.
        StorageError: it can't be written.
    """
    _refuse_namesake(workspace, problem)
    chosen = tuple(dict.fromkeys(define(workspace.dbt_project, problem, text) for text in metrics))
    known = labels_here(workspace, problem)
    if known and not labels_known:
        raise TokenmartError(
            f"{problem.name}: {known}: this would be no pre-registration; with --labels-known it "
            "is written and says so for ever"
        )
    path = record_path(workspace, problem.name)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock", timeout=30):
        before = entries(workspace, problem.name)
        models = registered_models(problem)
        _refuse_repeated(problem, chosen, models, before)
        draft = Entry(
            number=len(before) + 1,
            problem=problem.name,
            metrics=chosen,
            models=models,
            rule=RULE,
            level=level,
            seed=seed,
            code=code_revision(),
            target=known or "unknown",
            recorded_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            previous=before[-1].sha256 if before else "",
            sha256="",
        )
        entry = draft.model_copy(update={"sha256": draft.digest()})
        content = {
            "schema": SCHEMA,
            "entries": [one.model_dump(mode="json") for one in (*before, entry)],
        }
        write_whole(path, json.dumps(content, indent=2) + "\n")
    return entry


def entries(workspace: Workspace, problem: str) -> tuple[Entry, ...]:
    """The pre-registrations of a problem, oldest first; none without a file.

    Raises:
        TokenmartError: the file can't be read, or an entry was edited after it was written.
    """
    path = record_path(workspace, problem)
    if not path.exists():
        return ()
    remedy = "restore the file, from git for instance"
    try:
        content = read_json(path, _MAXIMUM_BYTES).content
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise TokenmartError(f"{path}: not a file of pre-registrations; {remedy}")
        found = tuple(Entry.model_validate(one) for one in content.get("entries", ()))
    except StrictJsonError as error:
        raise TokenmartError(f"{path}: pre-registrations {error}; {remedy}") from error
    except (ValidationError, TypeError) as error:
        problems = error.errors() if isinstance(error, ValidationError) else []
        where = ".".join(str(part) for part in problems[0]["loc"]) if problems else "entries"
        raise TokenmartError(f"{path}: field {where} is missing or malformed; {remedy}") from error
    previous = ""
    for number, entry in enumerate(found, start=1):
        if entry.digest() != entry.sha256 or entry.previous != previous or entry.number != number:
            raise TokenmartError(
                f"{path}: entry {number} was changed after it was written (sha256 "
                f"{entry.sha256[:12]}…, found {entry.digest()[:12]}…); {remedy}"
            )
        previous = entry.sha256
    return found


def record_path(workspace: Workspace, problem: str) -> Path:
    """The file with a problem's pre-registrations."""
    return workspace.preregistered / f"{problem}.json"


def registered_models(problem: Ranked) -> tuple[RegisteredModel, ...]:
    """The models of a study, as an entry records them."""
    return tuple(
        RegisteredModel(full_id=model.full_id, family=model.family, kind=series_of(model))
        for model in problem.ranked_models
    )


def labels_here(workspace: Workspace, problem: Problem) -> str:
    """Which labels are recorded already, in words; empty when none are."""
    target = problem.target
    if target is None:
        return ""
    published = workspace.root / "results" / problem.name / "downstream_scores.parquet"
    if published.is_file():
        return f"target scores are published in {published.relative_to(workspace.root).as_posix()}"
    if target.kind == "file":
        if (workspace.root / target.path).exists():
            return f"the target file {target.path.as_posix()} is here"
        name = name_in(workspace, target.path)
        locks = workspace.lock_files.glob("*.json")
        if any(name in recorded_files(workspace, lock.stem) for lock in locks):
            return f"the target file {target.path.as_posix()} was read before"
        return ""
    folder = workspace.downstream / f"problem={problem.name}"
    if any(folder.glob("**/*.parquet")):
        return f"target scores are recorded in {folder.name} of the data folder"
    return ""


def _refuse_namesake(workspace: Workspace, problem: Problem) -> None:
    """A copy that kept the name of a problem here would write into the record of that one."""
    own = namesake(problem, workspace)
    if own is not None:
        raise TokenmartError(
            f"{problem.asked}: name: {problem.name} is that of {own}, and what is registered for "
            "one would count for the other; give your file a name of its own"
        )


def _refuse_repeated(
    problem: Problem,
    chosen: Sequence[RegisteredMetric],
    models: tuple[RegisteredModel, ...],
    before: Sequence[Entry],
) -> None:
    """Saying it twice only makes the test stricter; what has changed since may be said anew."""
    for entry in before:
        for metric in chosen:
            if metric in entry.metrics and entry.models == models:
                raise TokenmartError(
                    f"--metric {metric.name}: registered already, in entry {entry.number} of "
                    f"{entry.recorded_at}; see `tokenmart preregister --problem {problem.asked}`"
                )
