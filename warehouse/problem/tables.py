"""The table of a problem's documents."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import StorageError, TokenmartError
from warehouse.paths import Workspace
from warehouse.problem.problem_files import record_file
from warehouse.problem.spec import Problem
from warehouse.sources.documents import documents_table
from warehouse.sources.folders import ProblemFolders
from warehouse.store.parquet_files import read_table, write_table
from warehouse.store.schema import DOCUMENTS
from warehouse.terminal import counted

SOURCE_KEY = b"tokenmart.source"
"""Parquet footer key: hash of the corpus a documents table was made from."""


def documents_path(problem: Problem, workspace: Workspace) -> Path:
    """The documents table of a problem."""
    return ProblemFolders(workspace, problem.name).documents_table


def ensure_documents(
    problem: Problem, workspace: Workspace, offline: bool = False, force: bool = False
) -> pa.Table:
    """The problem's documents, in corpus order; fetched and written at first use.

    Args:
        force: also where texts are cut shorter than those that finished units read.

    Raises:
        LockedFileError: a locked file is missing, changed or malformed.
        TokenmartError: a package can't be fetched or has another hash, or texts were cut shorter.
    """
    folders = ProblemFolders(workspace, problem.name, offline, problem.argument)
    path = folders.documents_table
    limit = problem.documents.max_characters
    origin = _origin(problem, folders)
    if not _made_from(path, origin) or _of_earlier_version(path):
        documents = problem.documents.grouped(problem.documents.read(folders))
        table = documents_table(documents, limit)
        if not force:
            _refuse_shorter(path, table, problem, workspace)
        write_table(path, table.replace_schema_metadata({SOURCE_KEY: origin}))
    record_file(problem, workspace)
    return read_table(path)


def _refuse_shorter(path: Path, table: pa.Table, problem: Problem, workspace: Workspace) -> None:
    """Stop before units of whole texts are replaced by units of their first characters.

    Raises:
        TokenmartError: they would be.
    """
    if not (workspace.tokens / f"problem={problem.name}").is_dir():
        return
    try:
        texts = read_table(path)["text"].to_pylist()
    except (FileNotFoundError, StorageError):
        return
    pairs = zip(texts, table["text"].to_pylist(), table["name"].to_pylist(), strict=False)
    cut = [name for old, new, name in pairs if len(new) < len(old) and old.startswith(new)]
    if cut:
        raise TokenmartError(
            f"{problem.name}: {counted(len(cut), 'document')} would be cut shorter than the text "
            f"that was extracted, the first is {cut[0]}; set documents.max_characters as before, "
            "or use `tokenmart extract --force` to replace the finished units",
            code="shorter-run",
            where=cut[0],
        )


def _origin(problem: Problem, folders: ProblemFolders) -> str:
    """What the documents table is made from: the texts, and how they are cut and grouped."""
    origin = problem.documents.source_sha256(folders)
    limit = problem.documents.max_characters
    if limit is not None:
        origin = f"{origin}, cut at {limit} characters"
    if problem.documents.groups:
        origin = f"{origin}, groups {json.dumps(problem.documents.groups)}"
    return origin


def _of_earlier_version(path: Path) -> bool:
    """Whether the table lacks a column that was added since."""
    return not set(DOCUMENTS.names) <= set(pq.read_schema(path).names)


def documents_changed(problem: Problem, workspace: Workspace) -> bool:
    """Whether the user's texts are others than those of the documents table; nothing is written.

    A locked file is compared with its record, where it is read.
    """
    documents = problem.documents
    folders = ProblemFolders(workspace, problem.name, True, problem.argument)
    if getattr(documents, "locked", False):
        return False
    if not folders.documents_table.is_file() or not documents.is_here(folders):
        return False
    return not _made_from(folders.documents_table, _origin(problem, folders))


def _made_from(path: Path, origin: str) -> bool:
    """Whether the documents table at `path` is whole and was made from this source."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException):
        return False
    return metadata.get(SOURCE_KEY) == origin.encode()
