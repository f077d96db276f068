"""Files of the store, compared with what was written before anything is computed from them.

A file is read whole once: while its size, times and inode stay the same, its checksum isn't
computed again, but by `tokenmart data check`, which also compares the rows with the ledger.
"""

from __future__ import annotations

import glob
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from warehouse.errors import StorageError
from warehouse.files import stamp_if_there, write_whole
from warehouse.paths import Workspace
from warehouse.store.ledger import read_units
from warehouse.store.parquet_files import refuse_other_types, verified_checksum
from warehouse.store.schema import SCHEMA_VERSION, Table, all_tables

_AT_ONCE = 8
Intact = dict[str, tuple[str, str]]
"""Stamp and checksum of files by path; of another program's file, its stamp twice."""


class Fault(NamedTuple):
    """What is wrong with a file in a table's folder, or with one unit in it (`doc_id`)."""

    path: Path
    what: str
    doc_id: int | None = None


def table_files(workspace: Workspace, table: str) -> list[Path]:
    """Files of a table, sorted."""
    return sorted((workspace.store / table).glob(_pattern(all_tables()[table])))


def table_source(workspace: Workspace, table: str) -> list[str]:
    """The pattern of a table's files for DuckDB, which takes every name for one; [] without any."""
    if not table_files(workspace, table):
        return []
    return [f"{glob.escape(str(workspace.store / table))}/{_pattern(all_tables()[table])}"]


def _pattern(table: Table) -> str:
    return "/".join([*(f"{key}=*" for key in table.keys), table.files])


def refuse_faults(workspace: Workspace) -> None:
    """Stop if a file in the tables' folders is not what was written there.

    Raises:
        StorageError: names the first one; `tokenmart data check` lists all.
    """
    for path, what, _ in find_faults(workspace)[:1]:
        raise StorageError(f"{path}: {what}", code="damaged-file", where=path)


def refuse_changes(workspace: Workspace, before: dict[Path, str]) -> None:
    """Stop if a run of dbt changed or removed a file of the store, as a hook can.

    Args:
        before: `file_stamps` at its start.

    Raises:
        StorageError: names the file.
    """
    after = file_stamps(workspace)
    if after != before:
        refuse_faults(workspace)
    for path in sorted(before.keys() - after.keys())[:1]:
        raise StorageError(f"{path}: removed while dbt ran", code="damaged-file", where=path)


def find_faults(workspace: Workspace, *, every_byte: bool = False) -> list[Fault]:
    """Every Parquet file of the tables that is foreign, damaged or in another's place, by path.

    Args:
        every_byte: also of files that are unchanged since they were found intact.
    """
    return _look(workspace, every_byte)[0]


def file_stamps(workspace: Workspace) -> dict[Path, str]:
    """The stamp of every Parquet file of the tables; none is read."""
    tops = (workspace.store / name for name in all_tables())
    return {path: stamp_if_there(path) for top in tops for path in top.glob("**/*.parquet")}


def files_sha256(workspace: Workspace) -> dict[str, str]:
    """A hash of each problem's files whose rows have no hash of their own.

    Those are all but documents, tokens of the core's units, what the problem file asks for, and
    audits and target scores, from which nothing is built.
    """
    tables = all_tables()
    faults, intact = _look(workspace, every_byte=False)
    versions = {path: checksum for path, (_, checksum) in intact.items()}
    versions |= {str(fault.path): fault.what for fault in faults}
    digests: dict[str, hashlib._Hash] = {}
    for path in sorted(versions):
        place = Path(path).relative_to(workspace.store).as_posix()
        table = place.partition("/")[0]
        if tables[table].is_target or table in ("audits", "documents", "tokens", "needed"):
            continue
        problem = place.split("/")[1].partition("=")[2]
        digest = digests.setdefault(problem, hashlib.sha256())
        digest.update(f"{place} {versions[path]}\n".encode())
    return {problem: digest.hexdigest() for problem, digest in digests.items()}


def _look(workspace: Workspace, every_byte: bool) -> tuple[list[Fault], Intact]:
    record = workspace.cache / f"verified_files.{SCHEMA_VERSION}.json"
    known: Intact = {}
    with suppress(OSError, ValueError, AttributeError, TypeError):
        read = json.loads(record.read_bytes()).items()
        known = {path: (str(stamp), str(checksum)) for path, (stamp, checksum) in read}
    faults: list[Fault] = []
    intact: Intact = {}
    to_check: list[tuple[Path, Table]] = []
    for name, table in all_tables().items():
        of_problem = set(table_files(workspace, name))
        for path in sorted((workspace.store / name).glob("**/*.parquet")):
            if path not in of_problem:
                faults.append(Fault(path, "no file of Tokenmart has this place"))
            elif not every_byte and known.get(str(path), ("",))[0] == stamp_if_there(path):
                intact[str(path)] = known[str(path)]
            else:
                to_check.append((path, table))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        checked = pool.map(lambda each: _check(*each), to_check)
        for (path, _), (stamp, checksum, what) in zip(to_check, checked, strict=True):
            before = known.get(str(path), ("", ""))
            if checksum == stamp != "" and before[0] != before[1]:  # as a dbt hook may do it
                what = "another program has replaced the file that Tokenmart wrote"
            if what:
                faults.append(Fault(path, what))
            if what and before[0] != before[1]:
                intact[str(path)] = before  # compared again each time
            elif stamp and not what:
                intact[str(path)] = stamp, checksum
    if intact != known:
        with suppress(StorageError):  # a read-only folder: compared again next time
            write_whole(record, json.dumps(intact))
    return sorted(faults), intact


def _check(path: Path, table: Table) -> tuple[str, str, str]:
    """A file's stamp before it was read, its checksum, and what is wrong with it."""
    stamp = stamp_if_there(path)
    try:
        checksum = verified_checksum(path)
        if table.ledger:
            read_units(path)
        needed = {each.name for each in table.schema if not each.nullable}
        if lacking := needed - set(pq.read_schema(path).names):  # written by another program
            return stamp, "", f"lacks the columns {', '.join(sorted(lacking))}"
        if not checksum:
            refuse_other_types(path, table.schema)
        return stamp, checksum or stamp, ""
    except FileNotFoundError:
        return "", "", ""
    except StorageError as error:
        return stamp, "", error.message.removeprefix(f"{path}: ")
