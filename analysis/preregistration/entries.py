"""A problem's pre-registrations: entries that are added, never changed, and what changed since.

`data/preregistered/<problem>.json` is meant to be committed. Each entry carries a hash over its own
content and that of the entry before, so that an edit is noticed. A whole file can still be
rewritten: the proof of the date is the commit, or the hash published elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from filelock import FileLock
from pydantic import BaseModel, Field, ValidationError

from analysis.preregistration.definition import (
    UNKNOWN,
    Fixed,
    Hashes,
    RegisteredMetric,
    RegisteredModel,
    code_hashes,
    define,
    first_definition,
    problem_hashes,
    registered_models,
)
from warehouse.errors import TokenmartError
from warehouse.files import storage_errors, write_whole
from warehouse.metrics.manifest import current_manifest
from warehouse.problem.problem_files import namesake
from warehouse.problem.spec import Problem
from warehouse.sources.lock_file import name_in, recorded_files
from warehouse.store.provenance import code_revision, last_commit_of
from warehouse.strict_json import StrictJsonError, read_json

if TYPE_CHECKING:
    from warehouse.paths import Workspace
    from warehouse.problem.problem_files import Ranked

SCHEMA = "tokenmart/preregistration/1"
PUBLISHED = ("results/{}/downstream_scores.parquet", "studies/{}/tables/downstream_scores.parquet")
"""Folder in which target scores of a problem are committed."""

RULE = (
    "one-sided permutation test of Spearman's rho in the stated direction, series of models "
    "permuted among those of as many models in their family, the largest of all metrics registered "
    "for the problem"
)
NOT_COVERED = ("the SQL and macros that it reads", "views", "texts", "files and settings of models")
"""What entries without `parts` have no hash of: a change of it isn't noticed."""
_MAXIMUM_BYTES = 4 << 20
LOCK_SECONDS = 30.0


class Entry(Fixed):
    """One pre-registration.

    target: `unknown` when no label was found (see `known_labels`), else what was found.
    covers: of earlier entries: what the hashes of their definitions are over.
    parts: see `problem_hashes`; None in earlier entries (`NOT_COVERED`).
    supersedes: number of an earlier entry that this one replaces; `reason` says why. Only entries
        written before labels replace others.
    previous: sha256 of the entry before, empty for the first.
    sha256: over everything else.
    """

    number: int
    problem: str
    metrics: tuple[RegisteredMetric, ...]
    models: tuple[RegisteredModel, ...]
    rule: str
    level: float
    seed: int
    code: dict[str, str | bool | None]
    target: str
    covers: tuple[str, ...] | None = None
    parts: Hashes | None = None
    supersedes: int | None = None
    reason: str | None = None
    recorded_at: str
    previous: str
    sha256: str

    @property
    def names(self) -> str:
        """Its metrics with their directions, for a sentence."""
        return ", ".join(f"{m.name} ({m.direction} is better)" for m in self.metrics)

    @property
    def before_labels(self) -> bool:
        """Whether no label was found when it was written, as the entry states."""
        return self.target == "unknown"

    @property
    def not_covered(self) -> tuple[str, ...]:
        """Names of what it has no hash of, such as files that weren't here."""
        if self.parts is None:
            return NOT_COVERED
        lacking = [name for name, known in self.parts.items() if known == UNKNOWN]
        models = [model.full_id for model in self.models if model.files == UNKNOWN]
        return (*lacking, *(f"files of {full_id}" for full_id in models))

    def written(self) -> dict[str, Any]:
        """As it is in the file: fields unknown to the version that wrote it are absent."""
        return self.model_dump(mode="json", exclude_unset=True, by_alias=True)

    def digest(self) -> str:
        """The hash that `sha256` must be."""
        content = {name: value for name, value in self.written().items() if name != "sha256"}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class _File(BaseModel):
    schema_: Literal["tokenmart/preregistration/1"] = Field(alias="schema")
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class PreregisteredMetric:
    """A metric of an entry; `changed` names what differs from the entry now.

    replaced: by a later entry, written before labels were known.
    """

    entry: Entry
    metric: RegisteredMetric
    changed: tuple[str, ...]
    replaced: bool = False

    @property
    def counts(self) -> bool:
        """Whether it may be tested at the entry's level: before labels, and unchanged since."""
        return self.entry.before_labels and not self.changed


def register(
    workspace: Workspace,
    problem: Problem,
    metrics: Sequence[str],
    level: float,
    seed: int,
    labels_known: bool,
    supersedes: int | None = None,
    reason: str | None = None,
    confirm: Callable[[Entry], None] = lambda entry: None,
) -> Entry:
    """Add an entry to the problem's file.

    Args:
        workspace: the checkout.
        problem: whose target the metrics are to predict.
        metrics: `METRIC/VARIANT` or `METRIC/VARIANT:DIRECTION`.
        level: of the test, shared by all metrics registered for the problem.
        seed: of the test.
        labels_known: write it although labels are known; the entry states so.
        supersedes: number of an entry that is no longer tested.
        reason: why it is replaced.
        confirm: is shown the entry before it is written, and raises where it shall not be.

    Raises:
        TokenmartError: labels are known and `labels_known` is false, a metric isn't there or is
            registered already, the problem has the name of another one, or the file was edited.
        StorageError: it can't be written, or another process registers.
    """
    _refuse_namesake(problem, workspace)
    manifest = current_manifest(workspace)
    defined = [define(manifest, problem, text) for text in metrics]
    asked = {(metric.name, metric.direction): metric for metric in defined}
    known = known_labels(workspace, problem)
    if known and (not labels_known or supersedes is not None):
        raise TokenmartError(
            f"{problem.name}: {known}: this is no pre-registration; with --labels-known, and "
            "without --supersedes, it is written and states that for ever",
            code="known-labels",
            where=known,
        )
    path = record_path(workspace, problem.name)
    # another process may have the lock while it waits for an answer
    with storage_errors(path), FileLock(f"{path}.lock", timeout=LOCK_SECONDS):
        before = entries(workspace, problem.name)
        _refuse_registered(workspace, problem, asked, supersedes)
        _check_superseded(before, supersedes, reason)
        draft = Entry(
            number=len(before) + 1,
            problem=problem.name,
            metrics=tuple(asked.values()),
            models=registered_models(workspace, problem),
            rule=RULE,
            level=level,
            seed=seed,
            code=code_revision(),
            target=known or "unknown",
            parts=problem_hashes(workspace, problem),
            supersedes=supersedes,
            reason=reason,
            recorded_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            previous=before[-1].sha256 if before else "",
            sha256="",
        )
        entry = draft.model_copy(update={"sha256": draft.digest()})
        content = {"schema": SCHEMA, "entries": [one.written() for one in (*before, entry)]}
        confirm(entry)
        write_whole(path, json.dumps(content, indent=2) + "\n")
    return entry


def _refuse_namesake(problem: Problem, workspace: Workspace) -> None:
    """Stop at a copy, which would write into the record of the problem it was copied from."""
    original = namesake(problem, workspace)
    if original is not None:
        raise TokenmartError(
            f"{problem.argument}: name: {problem.name} is that of {original}, and what is "
            "registered for one would count for the other; give your file a name of its own",
            code="name-taken",
            where=problem.argument,
        )


def _refuse_registered(
    workspace: Workspace,
    problem: Problem,
    asked: Collection[tuple[str, str]],
    supersedes: int | None,
) -> None:
    """Stop at an unchanged metric that is registered: twice, it would only make the test stricter.

    Args:
        asked: names and directions.
        supersedes: an entry without hashes of the problem's parts may be replaced by one with them.
    """
    for earlier in preregistered_metrics(workspace, problem):
        entry, metric = earlier.entry, earlier.metric
        covers_more = entry.parts is None and entry.number == supersedes
        if (metric.name, metric.direction) in asked and not (earlier.changed or covers_more):
            raise TokenmartError(
                f"--metric {metric.name}: registered already, in entry {entry.number} "
                f"of {entry.recorded_at}",
                code="registered-already",
                where=f"entry {entry.number}",
            )


def entries(workspace: Workspace, problem: str) -> tuple[Entry, ...]:
    """The pre-registrations of a problem, oldest first; none without a file.

    Raises:
        TokenmartError: the file can't be read, or an entry was edited after it was written.
    """
    path = record_path(workspace, problem)
    if not path.exists():
        return ()
    try:
        content = read_json(path, _MAXIMUM_BYTES).content
        recorded = _File.model_validate(content).entries
    except (StrictJsonError, ValidationError) as error:
        raise TokenmartError(
            f"{path}: {error}; restore the file, from git for instance",
            code="unreadable-entries",
            where=path,
        ) from error
    previous = ""
    for number, entry in enumerate(recorded, start=1):
        if entry.digest() != entry.sha256 or entry.previous != previous or entry.number != number:
            raise TokenmartError(
                f"{path}: entry {number} was changed after it was written (sha256 "
                f"{entry.sha256[:12]}…, found {entry.digest()[:12]}…); restore the file",
                code="changed-entry",
                where=f"entry {number}",
            )
        previous = entry.sha256
    return recorded


def preregistered_metrics(workspace: Workspace, problem: Ranked) -> tuple[PreregisteredMetric, ...]:
    """Every preregistered metric of a problem, oldest first.

    Raises:
        TokenmartError: the file can't be read, an entry was edited, or dbt can't parse the project.
    """
    recorded = entries(workspace, problem.name)
    if not recorded:
        return ()
    models = {model.full_id: model for model in registered_models(workspace, problem)}
    replaced = {entry.supersedes: entry for entry in recorded}
    manifest: Mapping[str, Any] = {}
    parts: Hashes = {}
    if isinstance(problem, Problem):
        manifest, parts = current_manifest(workspace), problem_hashes(workspace, problem)
    metrics = []
    for entry in recorded:
        changed = []
        if by := replaced.get(entry.number):
            changed.append(f"entry {by.number} replaced it ({by.reason})")
        if entry.problem != problem.name:
            changed.append(f"the entry is of the problem {entry.problem}")
        known = problem.labels_known_since if isinstance(problem, Problem) else None
        if known is not None and entry.recorded_at >= known.isoformat():
            changed.append(f"the problem file states that labels were known from {known} on")
        changed += _changed_models({model.full_id: model for model in entry.models}, models)
        if entry.parts is not None:
            changed += changed_hashes(entry.parts, parts)
        for metric in entry.metrics:
            now = (*changed, *_changed_metric(manifest, problem, metric))
            metrics.append(PreregisteredMetric(entry, metric, now, by is not None))
    return tuple(metrics)


def changed_hashes(then: Hashes, now: Hashes) -> list[str]:
    """A line for each difference between two sets of hashes; `UNKNOWN` differs from no hash."""
    changes = []
    for name in {**then, **now}:
        before, after = then.get(name), now.get(name)
        if before != after and UNKNOWN not in (before, after):
            how = "was added" if before is None else "was removed" if after is None else "changed"
            changes.append(f"{name} {how} since")
    return changes


def record_path(workspace: Workspace, problem: str) -> Path:
    """The file with a problem's pre-registrations."""
    return workspace.preregistered / f"{problem}.json"


def known_labels(workspace: Workspace, problem: Problem) -> str:
    """The source from which target scores are known already; empty if none is found.

    What the repository itself states comes first, since it does not depend on this machine: the
    problem file's `labels_known_since`, committed tables, and git's history of them.
    """
    target = problem.target
    if target is None:
        return ""
    if problem.labels_known_since is not None:
        return f"the problem file states labels_known_since: {problem.labels_known_since}"
    published = [Path(each.format(problem.name)) for each in PUBLISHED]
    paths = [*published, *([target.path] if target.kind == "file" else [])]
    for path in paths:
        if (workspace.root / path).exists():
            return f"target scores are in {path.as_posix()}"
    revision = last_commit_of(workspace.root, paths)
    if revision:
        return f"target scores were committed in {revision}"
    if target.kind == "file":
        name = name_in(workspace, target.path)
        locks = workspace.lock_files.glob("*.json")
        if any(name in recorded_files(workspace, lock.stem) for lock in locks):
            return f"the target file {target.path.as_posix()} was read before"
        return ""
    folder = workspace.store / "downstream" / f"problem={problem.name}"
    if any(folder.glob("**/*.parquet")):
        return f"target scores are recorded in {folder.name} of the data folder"
    return ""


def _check_superseded(before: Sequence[Entry], number: int | None, reason: str | None) -> None:
    standing = {entry.number for entry in before} - {entry.supersedes for entry in before}
    if (number is None) == (reason is None) and (number is None or number in standing):
        return
    place = "--supersedes" if number is not None and reason is not None else "--reason"
    raise TokenmartError(
        f"--supersedes {number}: give the number of an entry that isn't replaced, and a --reason",
        code="no-entry" if place == "--supersedes" else "reason-missing",
        where=place,
    )


def _changed_models(
    then: Mapping[str, RegisteredModel], now: Mapping[str, RegisteredModel]
) -> list[str]:
    changes = [f"{full_id} was left out" for full_id in then if full_id not in now]
    changes += [f"{full_id} was added" for full_id in now if full_id not in then]
    for full_id in (each for each in then if each in now):
        old, new = then[full_id], now[full_id]
        if (old.family, old.series) != (new.family, new.series):
            changes.append(f"{full_id} was put into another family or series")
        if old.settings not in (None, new.settings):
            changes.append(f"the settings of {full_id} changed since")
        # what the problem file changes in a model is a part of both
        elif old.files and new.files and old.files != new.files:
            changes.append(f"the files of {full_id} changed since")
    return changes


def _changed_metric(
    manifest: Mapping[str, Any], problem: Ranked, metric: RegisteredMetric
) -> list[str]:
    if not isinstance(problem, Problem):
        return ["a table of scores was put in the problem's place"]
    if metric.code is not None:
        now = code_hashes(manifest, metric.metric, metric.variant)
        return changed_hashes(metric.code, now) if now else [f"{metric.metric} was removed since"]
    if first_definition(manifest, problem, metric.metric, metric.variant) != metric.definition:
        return [f"{metric.name} was given another definition, documents, probes or target"]
    return []
