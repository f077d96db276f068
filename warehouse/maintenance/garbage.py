"""Files and units that no problem file needs, leftovers of killed processes, and their removal."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.errors import OtherKindError, StorageError, TokenmartError
from warehouse.files import storage_errors
from warehouse.paths import Workspace, list_problems, problem_argument
from warehouse.problem.needed import needed_by_file, refresh_needed
from warehouse.problem.problem_files import problem_kind, read_problem_file
from warehouse.problem.spec import load_problem
from warehouse.problem.unit_states import Text, decided, stored_texts
from warehouse.store.claims import abandoned_owner
from warehouse.store.ledger import UnitRecord, read_units
from warehouse.store.schema import all_tables, store_folders
from warehouse.store.stored_files import table_files
from warehouse.store.token_files import (
    finished_units,
    partition_keys,
    publication_lock,
    read_rows,
    write_units,
)

STRAY_SECONDS = 3600.0
_CLAIM = ".claim"
UnitName = tuple[int, str]
"""Document and fingerprint: a unit that was recomputed since isn't the one that was found."""


class Garbage(NamedTuple):
    """Something to remove: a file, or some units of a token file."""

    path: Path
    why: str
    units: frozenset[UnitName] = frozenset()


def find_garbage(
    workspace: Workspace, problem: str | None = None
) -> tuple[list[Garbage], list[str]]:
    """Everything that may go, of one problem or of all, and notes on what was left alone."""
    garbage: list[Garbage] = []
    notes: list[str] = []
    tops = [top for store in workspace.token_stores for top in (store.tokens, store.pending)]
    stored = {each.name.partition("=")[2] for top in tops for each in top.glob("problem=*")}
    for name in [problem] if problem else sorted({*list_problems(workspace), *stored}):
        try:
            file = load_problem(problem_argument(name, workspace) or name, workspace)
        except OtherKindError:
            models = _models_of_kind(problem_argument(name, workspace) or name, workspace)
            if models is not None:
                garbage += _other_files(workspace, name, models)
        except TokenmartError:
            notes.append(f"{name}: no readable problem file; its units are left alone")
        else:
            models = {model.model_id for model in file.models}
            refresh_needed(file, workspace)
            needed = needed_by_file(file, workspace)
            garbage += _units(workspace, needed, stored_texts(file, workspace))
            garbage += _other_files(workspace, name, models)
        garbage += _leftovers(workspace, name)
    return garbage, notes


def _models_of_kind(argument: str, workspace: Workspace) -> Collection[str] | None:
    """Models of a problem file that a plugin reads; None if its rows are left alone."""
    kind = problem_kind(argument, read_problem_file(argument, workspace), workspace)
    return None if kind is None else kind.models()


def _units(
    workspace: Workspace, needed: pa.Table, texts: Mapping[int, Text] | None
) -> list[Garbage]:
    """Outdated units, published or pending; damaged files are for `data check`."""
    problem = needed["problem"][0].as_py()
    tops = (workspace.tokens, workspace.pending)
    files = chain.from_iterable(
        top.glob(f"problem={problem}/model_id=*/condition=*/*.parquet") for top in tops
    )
    recorded: list[tuple[Path, UnitRecord]] = []
    for path in sorted(files):
        with suppress(StorageError):
            recorded += [(path, unit) for unit in read_units(path)]
    units = decided(needed, texts, [record for _, record in recorded])
    units_of: dict[tuple[Path, str], set[UnitName]] = {}
    for (path, record), unit in zip(recorded, units, strict=False):
        if unit.state == "outdated":
            units_of.setdefault((path, unit.why), set()).add(_name(record))
    return [Garbage(path, why, frozenset(names)) for (path, why), names in units_of.items()]


def _other_files(workspace: Workspace, problem: str, models: Collection[str]) -> Iterator[Garbage]:
    """Files of models that left the problem file, and top-k tokens or divergences without unit.

    Those are written before their unit, which may follow within the hour.
    """

    @cache
    def units(folder: Path) -> set[UnitName]:
        return set(map(_name, finished_units(workspace, *partition_keys(folder)).values()))

    for name, table in all_tables().items():
        for path in table_files(workspace, name) if "model_id" in table.keys else ():
            keys = dict(part.split("=", 1) for part in path.parts if "=" in part)
            if keys["problem"] != problem or name == "tokens":
                continue
            if keys["model_id"] not in models:
                yield Garbage(path, "the model is not in the problem file")
            elif name in ("top_tokens", "divergences") and _is_old(path):
                _, doc_id, fingerprint = path.stem.split("-")
                with suppress(StorageError):
                    if (int(doc_id), fingerprint) not in units(path.parent):
                        yield Garbage(path, "the unit is gone")


def _leftovers(workspace: Workspace, problem: str) -> Iterator[Garbage]:
    """Files that killed processes left in the folders of one problem."""
    for folder in [table / f"problem={problem}" for table in store_folders(workspace)]:
        for path in filter(_is_old, sorted(folder.rglob(".*.tmp"))):
            yield Garbage(path, "a write that was killed")
        for path in sorted(folder.rglob("*.damaged")):
            yield Garbage(path, "set aside as damaged")
    claims = workspace.store / "claims" / problem
    for path in sorted(claims.rglob(f"*{_CLAIM}")):
        with storage_errors(path):
            owner = abandoned_owner(path)
        if owner is not None:
            yield Garbage(path, f"its owner is gone: {owner.split(' ')[0]}")
    for path in filter(_is_old, sorted(claims.rglob(".*"))):
        yield Garbage(path, "a half-made claim that was killed")


def _is_old(path: Path) -> bool:
    """Whether nothing has written the file for an hour; false for one that is gone."""
    with suppress(FileNotFoundError):
        return time.time() - path.stat().st_mtime > STRAY_SECONDS
    return False


def _name(unit: UnitRecord) -> UnitName:
    return unit.doc_id, unit.fingerprint


def remove_garbage(workspace: Workspace, garbage: list[Garbage]) -> None:
    """Remove what was found.

    Units go under the publication lock, and only if their file still has them. Lock files stay:
    if one were removed, the process that has it and a process that makes a new one would both have
    the lock.

    Raises:
        StorageError: a folder can't be written.
    """
    for item in garbage:
        if item.units:
            with publication_lock(workspace, *partition_keys(item.path.parent)):
                _remove_units(item.path, item.units)
        elif item.path.suffix == _CLAIM and abandoned_owner(item.path) is None:
            continue  # another process has taken it over since
        else:
            with storage_errors(item.path):
                item.path.unlink(missing_ok=True)
        with suppress(OSError):  # folders with nothing in them, upwards
            for folder in item.path.relative_to(workspace.store).parents[:-1]:
                (workspace.store / folder).rmdir()


def _remove_units(path: Path, names: frozenset[UnitName]) -> None:
    """Rewrite a token file without these units; a file with no other is removed."""
    kept = [unit for unit in read_units(path) if _name(unit) not in names]
    if kept:
        rows = read_rows(path)
        documents = pa.array([unit.doc_id for unit in kept], pa.int32())
        write_units(path, kept, [rows.filter(pc.is_in(rows["doc_id"], documents))])
        return
    with storage_errors(path):
        path.unlink(missing_ok=True)
