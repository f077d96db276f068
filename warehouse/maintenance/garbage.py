"""Files and units that no problem file needs, leftovers of killed processes, and their removal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from warehouse.errors import OtherKindError, StorageError, TokenmartError
from warehouse.files import storage_errors
from warehouse.paths import Workspace, list_problems, problem_argument
from warehouse.problem.spec import load_problem
from warehouse.problem.unit_states import OTHER_MODEL, NeededUnits, needed_units
from warehouse.store.claims import abandoned_owner, file_system_now
from warehouse.store.ledger import UnitRecord, read_units
from warehouse.store.schema import all_tables, store_folders
from warehouse.store.stored_files import table_files
from warehouse.store.token_files import (
    finished_units,
    keep_units,
    partition_keys,
    pending_files,
    publication_lock,
    published_path,
    read_rows,
)

STRAY_SECONDS = 3600.0
_CLAIM = ".claim"
UnitName = tuple[int, str]
"""Document and fingerprint: a unit that was recomputed since isn't the one that was found."""


@dataclass(frozen=True)
class Garbage:
    """Something to remove: a file, or some units of a published file."""

    path: Path
    why: str
    bytes: int
    units: tuple[UnitName, ...] = ()


def find_garbage(
    workspace: Workspace, problem: str | None = None
) -> tuple[list[Garbage], list[str]]:
    """Everything that may go, of one problem or of all, and notes on what was left alone."""
    found: list[Garbage] = []
    notes: list[str] = []
    tops = [top for store in workspace.token_stores for top in (store.tokens, store.pending)]
    stored = {each.name.partition("=")[2] for top in tops for each in top.glob("problem=*")}
    for name in [problem] if problem else sorted({*list_problems(workspace), *stored}):
        try:
            file = load_problem(problem_argument(name, workspace) or name, workspace)
        except OtherKindError:
            pass  # it has no units
        except TokenmartError:
            notes.append(f"{name}: no readable problem file; its units are left alone")
        else:
            needed = needed_units(file, workspace)
            found += _published_units(workspace, needed)
            found += _pending_units(workspace, needed)
            found += _files_of_other_models(workspace, needed)
        found += _leftovers(workspace, name)
        found += _side_rows_without_unit(workspace, name)
    return found, notes


def _published_units(workspace: Workspace, needed: NeededUnits) -> Iterator[Garbage]:
    folder = workspace.tokens / f"problem={needed.problem}"
    for path in sorted(folder.glob("model_id=*/condition=*/tokens.parquet")):
        with suppress(StorageError):  # damaged files are for `data check`
            units = read_units(path)
            total = sum(unit.rows for unit in units) or 1
            by_reason: dict[str, list[UnitRecord]] = {}
            for unit in units:
                by_reason.setdefault(needed.why_outdated(unit), []).append(unit)
            by_reason.pop("", None)
            for why, group in by_reason.items():
                share = sum(unit.rows for unit in group) / total
                yield Garbage(path, why, int(_bytes(path) * share), tuple(map(_name, group)))


def _pending_units(workspace: Workspace, needed: NeededUnits) -> Iterator[Garbage]:
    """Pending units that aren't needed, or are merged already."""
    folder = workspace.pending / f"problem={needed.problem}"
    for pending in sorted(folder.glob("model_id=*/condition=*")):
        published: list[UnitRecord] = []
        with suppress(StorageError):
            published = read_units(published_path(workspace, *partition_keys(pending)))
        for path in pending_files(pending):
            with suppress(StorageError):
                for unit in read_units(path):
                    why = "merged already" if unit in published else needed.why_outdated(unit)
                    if why:
                        yield Garbage(path, why, _bytes(path))


def _files_of_other_models(workspace: Workspace, needed: NeededUnits) -> Iterator[Garbage]:
    """Files of the other tables, of models that left the problem file."""
    for name, table in all_tables().items():
        for path in table_files(workspace, name) if "model_id" in table.keys else ():
            keys = dict(part.split("=", 1) for part in path.parts if "=" in part)
            other = keys["problem"] == needed.problem and keys["model_id"] not in needed.models
            if other and name != "tokens":
                yield Garbage(path, OTHER_MODEL, _bytes(path))


def _side_rows_without_unit(workspace: Workspace, problem: str) -> Iterator[Garbage]:
    """Files of top-k tokens or divergences without their unit, which may follow within the hour."""
    units: dict[Path, set[UnitName]] = {}
    tables = workspace.store / "top_tokens", workspace.store / "divergences"
    files = [_older(each / f"problem={problem}", "doc-*.parquet") for each in tables]
    for path in chain.from_iterable(files):
        if path.parent not in units:
            with suppress(StorageError):
                ledger = finished_units(workspace, *partition_keys(path.parent)).values()
                units[path.parent] = set(map(_name, ledger))
        _, doc_id, fingerprint = path.stem.split("-")
        # a ledger that can't be read is for `data check`
        if path.parent in units and (int(doc_id), fingerprint) not in units[path.parent]:
            yield Garbage(path, "the unit is gone", _bytes(path))


def _leftovers(workspace: Workspace, problem: str) -> Iterator[Garbage]:
    """Files that killed processes left in the folders of one problem."""
    for folder in [table / f"problem={problem}" for table in store_folders(workspace)]:
        for path in _older(folder, ".*.tmp"):
            yield Garbage(path, "a write that was killed", _bytes(path))
        for path in sorted(folder.rglob("*.damaged")):
            yield Garbage(path, "set aside as damaged", _bytes(path))
    claims = workspace.store / "claims" / problem
    for path in sorted(claims.rglob(f"*{_CLAIM}")):
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


def _bytes(path: Path) -> int:
    """Bytes of a file; 0 if it is gone."""
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def _name(unit: UnitRecord) -> UnitName:
    return unit.doc_id, unit.fingerprint


def remove_garbage(workspace: Workspace, garbage: list[Garbage]) -> int:
    """Remove what was found; returns the bytes freed.

    Units go under the publication lock, and only if their file still has them. Lock files stay:
    if one were removed, the process that has it and a process that makes a new one would both have
    the lock.

    Raises:
        StorageError: a folder can't be written.
    """
    freed = 0
    units: dict[Path, set[UnitName]] = {}
    for item in garbage:
        if item.units:
            units.setdefault(item.path, set()).update(item.units)
            continue
        if item.path.suffix == _CLAIM and abandoned_owner(item.path) is None:
            continue  # another process has taken it over since
        freed += _bytes(item.path)
        with storage_errors(item.path):
            item.path.unlink(missing_ok=True)
            _remove_empty(item.path.parent, workspace.store)
    for path, names in units.items():
        before = _bytes(path)
        with publication_lock(workspace, *partition_keys(path.parent)):
            kept = {unit.doc_id for unit in read_units(path) if _name(unit) not in names}
            keep_units(path, read_rows(path), kept)
        freed += before - _bytes(path)
        _remove_empty(path.parent, workspace.store)
    return freed


def _remove_empty(folder: Path, top: Path) -> None:
    """Remove folders that have nothing in them, from this one upwards."""
    with suppress(OSError):
        while folder != top and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent
