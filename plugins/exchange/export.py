"""`tokenmart exchange export`: write the files for SQL over a store that may be shared.

Existing files are kept, and the manifest is written last: an interrupted export is incomplete, and
the same command resumes it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from plugins.exchange.bundle import (
    CARD,
    MANIFEST,
    SHARED,
    VALUES,
    BundleFile,
    Manifest,
    SharedProblem,
    has_a_place,
    place_of,
    refuse_link,
)
from plugins.exchange.card import card
from plugins.exchange.comparison import describe
from plugins.exchange.records import records
from warehouse.errors import StorageError, TokenmartError
from warehouse.files import appearing, sha256_file, storage_errors, write_whole
from warehouse.paths import Workspace
from warehouse.problem.spec import Problem
from warehouse.progress import Progress
from warehouse.remote import RemotePath, source
from warehouse.sql.connection import attach_marts, connect_to_parquet
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import DOCUMENTS, SCHEMA_VERSION, TABLES
from warehouse.store.survey import survey
from warehouse.store.token_files import pending_files

OPEN = ("apache-", "bsd-", "cc-by", "cc0", "mit", "odc-by", "pddl", "public domain", "unlicense")
"""Prefixes of SPDX names of licences that permit sharing texts with anyone; cc-by-nc and -nd are
excluded, because they don't permit every use."""

_NOT_OPEN = ("-nc", "-nd")
_OF_TEXTS = ("tokens", "top_tokens")
"""Tables with token ids, which reveal the text."""

_FOLDERS = ("data", "metrics", "eval_results")
_MADE_ANEW = ("metrics/", "eval_results/tokenmart-")
_DRAFT = re.compile(r"\.[0-9a-f]{32}\.tmp")
"""Name of a temporary file that an ended process left; see `warehouse.files.appearing`."""

Texts = Literal["licence", "never"]


@dataclass(frozen=True)
class Export:
    """Contents of a planned or finished export.

    problems: name → its entry in the manifest.
    files: path in the export → the store's file.
    size: bytes of these files.
    """

    problems: dict[str, SharedProblem]
    files: dict[str, Path]
    size: int


def may_share_texts(licence: str) -> bool:
    """Whether texts under this licence may be shared with anyone."""
    name = licence.strip().lower()
    return name.startswith(OPEN) and not any(part in name for part in _NOT_OPEN)


def plan_export(
    workspace: Workspace, problems: Sequence[Problem], texts: Texts = "licence"
) -> Export:
    """Plan an export of these problems; nothing is written.

    Raises:
        TokenmartError: a problem has no published tokens, or units that aren't published.
        StorageError: a file of the store is damaged.
    """
    damaged = [found for found in survey(workspace.store) if found.damaged]
    shared: dict[str, SharedProblem] = {}
    files: dict[str, Path] = {}
    with connect_to_parquet(workspace) as connection:
        for problem in problems:
            part = f"problem={problem.name}"
            wrong = [found for found in damaged if part in found.path.parts]
            if wrong:
                raise StorageError(f"{wrong[0]}; nothing was exported")
            waiting = (workspace.pending / part).glob("model_id=*/condition=*")
            if any(pending_files(folder) for folder in waiting):
                raise TokenmartError(
                    f"{problem.name}: finished units are not published yet; run `tokenmart "
                    "data publish`, then export again"
                )
            open_texts = texts == "licence" and may_share_texts(problem.documents.licence)
            shared[problem.name] = describe(connection, problem, open_texts)
            if not shared[problem.name].models:
                raise TokenmartError(
                    f"{problem.name}: nothing of it is in the store; run `tokenmart extract "
                    f"--problem {problem.asked}`"
                )
            for table in SHARED:
                if table in _OF_TEXTS and not open_texts:
                    continue
                for path in sorted((workspace.store / table / part).rglob(TABLES[table].files)):
                    place = path.relative_to(workspace.store).as_posix()
                    files[f"data/{place}"] = path
    return Export(shared, files, sum(path.stat().st_size for path in files.values()))


def write_export(
    workspace: Workspace,
    export: Export,
    address: str,
    organisation: str,
    progress: Progress,
    force: bool = False,
) -> Manifest:
    """Write an export to a folder or a bucket.

    Args:
        workspace: the store, and the database for values.
        export: from `plan_export`.
        address: folder or s3:// address; empty, or of an earlier export.
        organisation: evaluating organisation, for the records.
        progress: called as files are written.
        force: replace a finished export; files that the new one doesn't have are removed.

    Raises:
        TokenmartError: the address contains other files.
        StorageError: a file can't be written, or dbt is writing the database.
    """
    top = place_of(address)
    _refuse_other(workspace, top, address)
    _remove_earlier(export, top, address, force)
    written = []
    for place, path in sorted(export.files.items()):
        table = place.split("/")[1]
        hidden = table == "documents" and not export.problems[_problem(place)].texts
        written.append(_hashes_only(path, top, place) if hidden else _copy(path, top, place))
        progress(place.rpartition("/")[0], 1)
    values = _values(workspace, list(export.problems))
    for name, table in values.items():
        written.append(_put(top, f"metrics/{name}.parquet", _parquet(table)))
    for problem, shared in export.problems.items():
        scores = _rows(values.get("downstream_scores"), problem)
        metrics = _described(values, problem)
        for place, text in records(
            problem, shared, scores, metrics, organisation, version("tokenmart")
        ):
            written.append(_put(top, place, text.encode()))
    written.append(_put(top, CARD, card(export.problems, set(values)).encode()))
    manifest = Manifest(
        format="tokenmart-bundle",
        version=1,
        schema_version=SCHEMA_VERSION,
        tokenmart_version=version("tokenmart"),
        problems=export.problems,
        files=tuple(sorted(written, key=lambda file: file.path)),
    )
    _put(top, MANIFEST, (manifest.model_dump_json(indent=1) + "\n").encode())
    return manifest


def _refuse_other(workspace: Workspace, top: Path, address: str) -> None:
    if not isinstance(top, RemotePath):
        own = (workspace.root.resolve(), workspace.data.resolve())
        if top.resolve() in own or any(top.resolve() == each.parent for each in own):
            raise TokenmartError(f"{address}: is the checkout or its data; choose a new folder")
        if top.exists() and not top.is_dir():
            raise TokenmartError(f"{address}: a file; give a new folder")
    if (top / MANIFEST).is_file():
        return
    known = {*_FOLDERS, CARD}
    others = [path.name for path in top.glob("*") if path.name not in known]
    if others:
        raise TokenmartError(
            f"{address}: contains other files ({sorted(others)[0]}); give a new or empty folder"
        )


def _remove_earlier(export: Export, top: Path, address: str, force: bool) -> None:
    """Remove the manifest and the files that only an earlier export has.

    Otherwise token rows that this export leaves out could be shared with it.
    """
    finished = (top / MANIFEST).is_file()
    if finished and not force:
        raise TokenmartError(
            f"{address}: contains a finished export; give a new folder, or --force to replace it"
        )
    earlier = []
    for name in _FOLDERS:
        refuse_link(top, top / name)
        for path in sorted((top / name).rglob("*")):
            place = path.relative_to(top).as_posix()
            if place in export.files or not path.is_file():
                continue
            draft = _DRAFT.fullmatch(path.name)
            if not draft and not has_a_place(place):
                raise TokenmartError(
                    f"{address}: contains other files ({place}); give a new or empty folder"
                )
            # without a manifest, these files may not be an export
            if not draft and not finished and not place.startswith(_MADE_ANEW):
                raise TokenmartError(
                    f"{address}: {place} is not part of this export; delete it, or give a "
                    "new folder"
                )
            earlier.append(path)
    for path in (top / MANIFEST, *earlier):
        with storage_errors(path):
            path.unlink(missing_ok=True)


def _copy(path: Path, top: Path, place: str) -> BundleFile:
    target = top / place
    if not isinstance(path, RemotePath) and not isinstance(target, RemotePath):
        sha256 = sha256_file(path)
        if not (target.is_file() and not target.is_symlink() and sha256_file(target) == sha256):
            with appearing(target) as draft:
                shutil.copyfile(path, draft)
        return BundleFile(path=place, bytes=path.stat().st_size, sha256=sha256)
    return _put(top, place, path.read_bytes())


def _hashes_only(path: Path, top: Path, place: str) -> BundleFile:
    """The table of documents, without their texts."""
    table = pq.read_table(source(path), schema=DOCUMENTS, partitioning=None)
    index = table.schema.get_field_index("text")
    nothing = pa.array([""] * table.num_rows, pa.string())
    table = table.set_column(index, DOCUMENTS.field("text"), nothing)
    with tempfile.TemporaryDirectory(prefix="tokenmart-") as folder:
        draft = Path(folder) / "documents.parquet"
        write_table(draft, table.replace_schema_metadata(None))
        return _put(top, place, draft.read_bytes())


def _put(top: Path, place: str, content: bytes) -> BundleFile:
    target = top / place
    if isinstance(target, RemotePath):
        target.put(content)
    else:
        write_whole(target, content)
    return BundleFile(path=place, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def _values(workspace: Workspace, problems: Sequence[str]) -> dict[str, pa.Table]:
    """Metric values that dbt has built for these problems; none before the first build."""
    if not workspace.database.is_file():
        return {}
    found = {}
    with connect_to_parquet(workspace) as connection:
        attach_marts(connection, workspace)
        known = {
            name
            for (name,) in connection.execute("select table_name from duckdb_tables()").fetchall()
        }
        for name in VALUES:
            if name not in known:
                continue
            where = "" if name == "metric_catalog" else " where problem in ?"
            asked = [] if name == "metric_catalog" else [list(problems)]
            query = f"from {name}{where} order by all"
            found[name] = connection.sql(query, params=asked).to_arrow_table()
    return found


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def _rows(table: pa.Table | None, problem: str) -> list[dict[str, Any]]:
    return [] if table is None else [r for r in table.to_pylist() if r["problem"] == problem]


def _described(values: dict[str, pa.Table], problem: str) -> list[dict[str, Any]]:
    """Values with their catalogue entries."""
    if not {"metric_values", "metric_catalog"} <= values.keys():
        return []
    catalogue = {
        (row["metric"], row["variant"]): row for row in values["metric_catalog"].to_pylist()
    }
    return [
        {**catalogue[key], **row}
        for row in _rows(values["metric_values"], problem)
        if (key := (row["metric"], row["variant"])) in catalogue and row["value"] is not None
    ]


def _problem(place: str) -> str:
    return next(part for part in place.split("/") if part.startswith("problem=")).partition("=")[2]
