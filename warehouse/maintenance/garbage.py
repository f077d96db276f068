"""Superseded and stray files of the data folder, and their removal.

Nothing is touched that is not listed here: rows of units that the problem file, its documents or
the requests of a benchmark no longer name, pending units already merged, leftovers of killed
processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from filelock import FileLock, Timeout

from warehouse.errors import OtherKindError, StorageError, TokenmartError
from warehouse.files import storage_errors
from warehouse.maintenance.check import DocumentFacts, check_documents
from warehouse.paths import Workspace, list_problems
from warehouse.problem.spec import Problem, load_problem
from warehouse.store.claims import abandoned_owner, file_system_now
from warehouse.store.ledger import UnitRecord, read_units
from warehouse.store.schema import all_tables
from warehouse.store.stored_files import table_files
from warehouse.store.token_files import (
    LOCK_NAME,
    finished_units,
    keep_units,
    partition_keys,
    pending_files,
    publication_lock,
    published_path,
    read_rows,
)

STRAY_SECONDS = 3600.0
_name = attrgetter("doc_id", "fingerprint")


@dataclass(frozen=True)
class Garbage:
    """Something to remove: a file, or some units of a published file.

    Units are named by document and fingerprint: one recomputed since is not the one found.
    """

    what: str
    path: Path
    rows: int
    bytes: int
    why: str
    units: tuple[tuple[int, str], ...] = ()


def find_garbage(
    workspace: Workspace, problem: str | None = None
) -> tuple[list[Garbage], list[str]]:
    """Everything that may go, of one problem or of all, and notes on what was left alone."""
    found: list[Garbage] = []
    notes: list[str] = []
    known = {problem} if problem else {*list_problems(workspace), *_stored(workspace)}
    for name in sorted(known):
        try:
            file = load_problem(name, workspace)
        except OtherKindError:
            pass  # it has no units
        except TokenmartError:
            notes.append(f"{name}: no readable problem file; its units are left alone")
        else:
            documents, _ = check_documents(workspace, name)
            if documents is None and name in _stored(workspace):
                notes.append(f"{name}: no documents here; units are not compared with them")
            found += superseded_units(workspace, name, _reasons(file, documents))
            found += _of_other_models(workspace, file)
        found += _strays(workspace, name)
        found += _choices_without_unit(workspace, name)
    return found, notes


def _stored(workspace: Workspace) -> set[str]:
    tops = [top for store in workspace.token_stores for top in (store.tokens, store.pending)]
    return {folder.name.partition("=")[2] for top in tops for folder in top.glob("problem=*")}


def _of_other_models(workspace: Workspace, problem: Problem) -> Iterator[Garbage]:
    """Files of every table, but those with a ledger, of models that left the problem file."""
    models = {model.model_id for model in problem.models}
    for name, table in all_tables().items():
        if "model_id" in table.keys and not table.ledger:
            for path in table_files(workspace, name):
                parts = dict(part.split("=", 1) for part in path.parts if "=" in part)
                if parts["problem"] == problem.name and parts["model_id"] not in models:
                    yield Garbage(name, path, 0, bytes_of(path), NO_MODEL)


NO_MODEL = "the model is no longer in the problem file"


def _reasons(
    problem: Problem, documents: Mapping[int, DocumentFacts] | None
) -> Callable[[UnitRecord], str]:
    """A function that states why a unit is superseded; empty when it is not."""
    models = {model.model_id for model in problem.models}
    conditions = {c.name: c.params for probe in problem.probes for c in probe.conditions()}

    def why(unit: UnitRecord) -> str:
        if unit.model_id not in models:
            return NO_MODEL
        if unit.condition not in conditions:
            return "the probe is no longer in the problem file"
        if json.loads(unit.probe_params) != conditions[unit.condition]:
            return "the probe's parameters have changed"
        if documents is None:
            return ""
        if unit.doc_id not in documents:
            return "the document is no longer in the corpus"
        same = documents[unit.doc_id].sha256 == unit.document_sha256
        return "" if same else "the document has changed"

    return why


def superseded_units(
    workspace: Workspace, problem: str, reason: Callable[[UnitRecord], str]
) -> Iterator[Garbage]:
    """Published and pending units for which `reason` is not empty, or that are merged already."""
    folders = f"problem={problem}/model_id=*/condition=*"
    for path in sorted(workspace.tokens.glob(f"{folders}/tokens.parquet")):
        with suppress(StorageError):  # damaged files are for `data check`
            yield from _in_published(path, reason)
    for folder in sorted(workspace.pending.glob(folders)):
        published: dict[int, UnitRecord] = {}
        with suppress(StorageError):
            units = read_units(published_path(workspace, *partition_keys(folder)))
            published = {unit.doc_id: unit for unit in units}
        for path in pending_files(folder):
            with suppress(StorageError):
                for unit in read_units(path):
                    why = reason(unit)
                    if published.get(unit.doc_id) == unit:
                        why = "merged already"
                    if why:
                        yield Garbage("pending unit", path, unit.rows, bytes_of(path), why)


def _in_published(path: Path, reason: Callable[[UnitRecord], str]) -> Iterator[Garbage]:
    units = read_units(path)
    total = sum(unit.rows for unit in units) or 1
    by_reason: dict[str, list[UnitRecord]] = {}
    for unit in units:
        if why := reason(unit):
            by_reason.setdefault(why, []).append(unit)
    for why, group in by_reason.items():
        rows = sum(unit.rows for unit in group)
        size = bytes_of(path) * rows // total
        names = tuple(map(_name, group))
        yield Garbage(f"{len(group)} units", path, rows, size, why, names)


def _choices_without_unit(workspace: Workspace, problem: str) -> Iterator[Garbage]:
    """Files of top-k tokens whose unit is gone, except those of the last hour: their unit may
    follow.
    """
    units: dict[Path, set[tuple[int, str]]] = {}
    for path in _older(workspace.top_tokens / f"problem={problem}", "doc-*.parquet"):
        keys = partition_keys(path.parent)
        if path.parent not in units:
            with suppress(StorageError):
                ledger = finished_units(workspace, *keys).values()
                units[path.parent] = set(map(_name, ledger))
        _, doc_id, fingerprint = path.stem.split("-")
        # a ledger that can't be read is for `data check`
        if path.parent in units and (int(doc_id), fingerprint) not in units[path.parent]:
            yield Garbage("top-k tokens", path, 0, bytes_of(path), "their unit is gone")


def _strays(workspace: Workspace, problem: str) -> Iterator[Garbage]:
    """Leftovers of killed processes in the folders of one problem."""
    for folder in [table / f"problem={problem}" for table in workspace.store_folders]:
        for path in _older(folder, ".*.tmp"):
            yield Garbage("temporary file", path, 0, bytes_of(path), "a write that was killed")
        for path in sorted(folder.rglob("*.damaged")):
            yield Garbage("damaged file", path, 0, bytes_of(path), "set aside as damaged")
        for path in _older(folder, LOCK_NAME):
            if not pending_files(path.parent) and not _is_held(path):
                yield Garbage("lock file", path, 0, bytes_of(path), "not locked by a process")
    claims = workspace.store / "claims" / problem
    for path in sorted(claims.rglob("*.claim")):
        with storage_errors(path):
            owner = abandoned_owner(path)
        if owner is not None:
            why = f"its owner is gone: {owner.split(' ')[0]}"
            yield Garbage("claim", path, 0, bytes_of(path), why)
    for path in _older(claims, ".*"):
        yield Garbage("claim", path, 0, bytes_of(path), "a half-made claim that was killed")


def _older(folder: Path, pattern: str) -> Iterator[Path]:
    """Files untouched for an hour, by the file system's own clock."""
    paths = [path for path in sorted(folder.rglob(pattern)) if path.is_file()]
    if not paths:
        return
    with storage_errors(folder):
        now = file_system_now(folder)
    for path in paths:
        with suppress(FileNotFoundError):
            if now - path.stat().st_mtime > STRAY_SECONDS:
                yield path


def _is_held(lock: Path) -> bool:
    try:
        with FileLock(lock, timeout=0):
            return False
    except (Timeout, OSError):
        return True


def bytes_of(path: Path) -> int:
    """Bytes of a file; 0 if it is gone."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def remove_garbage(workspace: Workspace, garbage: list[Garbage]) -> int:
    """Remove what was found; returns the bytes freed.

    Units go under the publication lock, and only if their file still holds them.

    Raises:
        StorageError: a folder can't be written.
    """
    freed = 0
    units: dict[Path, set[tuple[int, str]]] = {}
    for item in garbage:
        if item.units:
            units.setdefault(item.path, set()).update(item.units)
            continue
        freed += bytes_of(item.path)
        with storage_errors(item.path):
            item.path.unlink(missing_ok=True)
            _remove_empty(item.path.parent, workspace.store)
    for path, gone in units.items():
        before = bytes_of(path)
        (store,) = (each for each in workspace.token_stores if path.is_relative_to(each.tokens))
        with publication_lock(store, *partition_keys(path.parent)):
            keep_units(path, read_rows(path), _outside(gone))
        freed += before - bytes_of(path)
        _remove_empty(path.parent, workspace.store)
    return freed


def _outside(gone: set[tuple[int, str]]) -> Callable[[UnitRecord], bool]:
    return lambda unit: _name(unit) not in gone


def _remove_empty(folder: Path, top: Path) -> None:
    """Remove folders that hold nothing, from this one upwards."""
    with suppress(OSError):
        while folder != top and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent
