"""Files and units that no problem file needs, leftovers of killed processes, and their removal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from filelock import FileLock, Timeout

from warehouse.errors import OtherKindError, StorageError, TokenmartError
from warehouse.files import storage_errors
from warehouse.paths import Workspace, list_problems, problem_argument
from warehouse.problem.spec import Problem, load_problem
from warehouse.store.claims import abandoned_owner, file_system_now
from warehouse.store.ledger import UnitRecord, read_units
from warehouse.store.parquet_files import read_table
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
Reason = Callable[[UnitRecord], str]
"""Why a unit isn't needed; empty when it is."""


@dataclass(frozen=True)
class Garbage:
    """Something to remove: a file, or some units of a published file.

    Units are named by document and fingerprint: one recomputed since is not the one found.
    """

    path: Path
    why: str
    bytes: int
    units: tuple[tuple[int, str], ...] = ()


def find_garbage(
    workspace: Workspace, problem: str | None = None
) -> tuple[list[Garbage], list[str]]:
    """Everything that may go, of one problem or of all, and notes on what was left alone."""
    found: list[Garbage] = []
    notes: list[str] = []
    names = {problem} if problem else {*list_problems(workspace), *_stored(workspace)}
    for name in sorted(names):
        try:
            file = load_problem(problem_argument(name, workspace) or name, workspace)
        except OtherKindError:
            pass  # it has no units
        except TokenmartError:
            notes.append(f"{name}: no readable problem file; its units are left alone")
        else:
            found += _units(workspace, name, _reasons(workspace, file))
            found += _files_of_other_models(workspace, file)
        found += _strays(workspace, name)
        found += _top_tokens_without_unit(workspace, name)
    return found, notes


def _stored(workspace: Workspace) -> set[str]:
    tops = [top for store in workspace.token_stores for top in (store.tokens, store.pending)]
    return {folder.name.partition("=")[2] for top in tops for folder in top.glob("problem=*")}


NO_MODEL = "the model is not in the problem file"


def _reasons(workspace: Workspace, problem: Problem) -> Reason:
    models = {model.model_id for model in problem.models}
    conditions = {c.name: c.params for probe in problem.probes for c in probe.conditions()}
    path = workspace.documents / f"problem={problem.name}" / "documents.parquet"
    documents: dict[int, str] | None = None
    with suppress(FileNotFoundError, StorageError):
        table = read_table(path, ["doc_id", "sha256"])
        documents = dict(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def why(unit: UnitRecord) -> str:
        if unit.model_id not in models:
            return NO_MODEL
        if unit.condition not in conditions:
            return "the probe is not in the problem file"
        if json.loads(unit.probe_params) != conditions[unit.condition]:
            return "the probe's parameters have changed"
        if documents is not None and documents.get(unit.doc_id) != unit.document_sha256:
            return "the document has changed or is not in the corpus"
        return ""

    return why


def _units(workspace: Workspace, problem: str, reason: Reason) -> Iterator[Garbage]:
    """Published and pending units that aren't needed, and pending ones that are merged."""
    folders = f"problem={problem}/model_id=*/condition=*"
    for path in sorted(workspace.tokens.glob(f"{folders}/tokens.parquet")):
        with suppress(StorageError):  # damaged files are for `data check`
            units = read_units(path)
            total = sum(unit.rows for unit in units) or 1
            by_reason: dict[str, list[UnitRecord]] = {}
            for unit in units:
                if why := reason(unit):
                    by_reason.setdefault(why, []).append(unit)
            for why, group in by_reason.items():
                share = sum(unit.rows for unit in group) / total
                names = tuple(map(_name, group))
                yield Garbage(path, why, int(_bytes(path) * share), names)
    for folder in sorted(workspace.pending.glob(folders)):
        published: list[UnitRecord] = []
        with suppress(StorageError):
            published = read_units(published_path(workspace, *partition_keys(folder)))
        for path in pending_files(folder):
            with suppress(StorageError):
                for unit in read_units(path):
                    why = "merged already" if unit in published else reason(unit)
                    if why:
                        yield Garbage(path, why, _bytes(path))


def _files_of_other_models(workspace: Workspace, problem: Problem) -> Iterator[Garbage]:
    """Files of the other tables."""
    models = {model.model_id for model in problem.models}
    for name, table in all_tables().items():
        if "model_id" in table.keys and name != "tokens":
            for path in table_files(workspace, name):
                parts = dict(part.split("=", 1) for part in path.parts if "=" in part)
                if parts["problem"] == problem.name and parts["model_id"] not in models:
                    yield Garbage(path, NO_MODEL, _bytes(path))


def _top_tokens_without_unit(workspace: Workspace, problem: str) -> Iterator[Garbage]:
    """Files of top-k tokens whose unit is gone, except those of the last hour: their unit may
    follow.
    """
    units: dict[Path, set[tuple[int, str]]] = {}
    for path in _older(workspace.top_tokens / f"problem={problem}", "doc-*.parquet"):
        if path.parent not in units:
            with suppress(StorageError):
                ledger = finished_units(workspace, *partition_keys(path.parent)).values()
                units[path.parent] = set(map(_name, ledger))
        _, doc_id, fingerprint = path.stem.split("-")
        # a ledger that can't be read is for `data check`
        if path.parent in units and (int(doc_id), fingerprint) not in units[path.parent]:
            yield Garbage(path, "the unit is gone", _bytes(path))


def _strays(workspace: Workspace, problem: str) -> Iterator[Garbage]:
    """Leftovers of killed processes in the folders of one problem."""
    for folder in [table / f"problem={problem}" for table in workspace.store_folders]:
        for path in _older(folder, ".*.tmp"):
            yield Garbage(path, "a write that was killed", _bytes(path))
        for path in sorted(folder.rglob("*.damaged")):
            yield Garbage(path, "set aside as damaged", _bytes(path))
        for path in _older(folder, LOCK_NAME):
            if not pending_files(path.parent) and not _is_held(path):
                yield Garbage(path, "not locked by a process", _bytes(path))
    claims = workspace.store / "claims" / problem
    for path in sorted(claims.rglob("*.claim")):
        with storage_errors(path):
            owner = abandoned_owner(path)
        if owner is not None:
            yield Garbage(path, f"its owner is gone: {owner.split(' ')[0]}", _bytes(path))
    for path in _older(claims, ".*"):
        yield Garbage(path, "a half-made claim that was killed", _bytes(path))


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


def _bytes(path: Path) -> int:
    """Bytes of a file; 0 if it is gone."""
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def remove_garbage(workspace: Workspace, garbage: list[Garbage]) -> int:
    """Remove what was found; returns the bytes freed.

    Units go under the publication lock, and only if their file still has them.

    Raises:
        StorageError: a folder can't be written.
    """
    freed = 0
    units: dict[Path, set[tuple[int, str]]] = {}
    for item in garbage:
        if item.units:
            units.setdefault(item.path, set()).update(item.units)
            continue
        freed += _bytes(item.path)
        with storage_errors(item.path):
            item.path.unlink(missing_ok=True)
            _remove_empty(item.path.parent, workspace.store)
    for path, gone in units.items():
        before = _bytes(path)
        with publication_lock(workspace, *partition_keys(path.parent)):
            keep_units(path, read_rows(path), _outside(gone))
        freed += before - _bytes(path)
        _remove_empty(path.parent, workspace.store)
    return freed


def _outside(gone: set[tuple[int, str]]) -> Callable[[UnitRecord], bool]:
    return lambda unit: _name(unit) not in gone


def _remove_empty(folder: Path, top: Path) -> None:
    """Remove folders that have nothing in them, from this one upwards."""
    with suppress(OSError):
        while folder != top and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent
