"""A problem's documents, on disk and checked.

`ensure_documents` is idempotent: it returns files that are there and correct, fetches what is
missing, and leaves either a whole file or none. A model's weights come from its source:
`spec.locate(place)`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.paths import Workspace
from warehouse.remote import footer, source
from warehouse.sources.documents.interface import DocumentSource, documents_table
from warehouse.sources.place import Place
from warehouse.store.parquet_files import write_table

SOURCE_KEY = b"tokenmart.source"
"""Parquet footer key: hash of the corpus a documents table was made from."""


class HasName(Protocol):
    """Anything with a problem's name."""

    @property
    def name(self) -> str:
        """The name, which is used in paths."""


class HasDocuments(HasName, Protocol):
    """A problem, as far as its documents go; `asked` is the value of `--problem`."""

    @property
    def asked(self) -> str:
        """Its name, or the path of its file."""

    @property
    def documents(self) -> DocumentSource:
        """Their source."""


def documents_path(problem: HasName, workspace: Workspace) -> Path:
    """The documents table of a problem."""
    return Place(workspace, problem.name).documents_table


def ensure_documents(
    problem: HasDocuments, workspace: Workspace, offline: bool = False
) -> pa.Table:
    """The problem's documents, in corpus order; fetched and written at first use.

    Raises:
        LockedFileError: a locked file is missing, changed or malformed.
        TokenmartError: a package can't be fetched or has another hash.
    """
    place = Place(workspace, problem.name, offline, problem.asked)
    path = place.documents_table
    origin = problem.documents.source_sha256(place)
    limit = problem.documents.max_characters
    if limit is not None:
        origin = f"{origin}, cut at {limit} characters"
    if problem.documents.grouping:
        origin = f"{origin}, {problem.documents.grouping}"
    if not _made_from(path, origin):
        documents = problem.documents.grouped(problem.documents.read(place))
        table = documents_table(documents, limit)
        write_table(path, table.replace_schema_metadata({SOURCE_KEY: origin}))
    return pq.read_table(source(path), partitioning=None)


def _made_from(path: Path, origin: str) -> bool:
    """Whether the documents table at `path` is whole and was made from this source."""
    try:
        metadata = pq.read_schema(footer(path)).metadata or {}
    except (OSError, pa.ArrowException):
        return False
    return metadata.get(SOURCE_KEY) == origin.encode()
