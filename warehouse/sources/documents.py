"""Sources of documents: the interface, folders of text, and tables that DuckDB reads."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, NamedTuple

import duckdb
import pyarrow as pa
from pydantic import Field, ValidationInfo, field_validator, model_validator

from warehouse.errors import TokenmartError
from warehouse.file_model import FileModel, from_folder
from warehouse.files import read_text, sha256_file
from warehouse.sources.folders import ProblemFolders, RequiredFile
from warehouse.store.schema import DOCUMENTS
from warehouse.table_file import load_rows, quoted

TEXT_ENDINGS = (".txt", ".md")
BYTES_PER_TOKEN = 4
"""Of UTF-8, before a tokenizer is at hand. English text, source code and Chinese with a tokenizer
trained on it have 3.3 to 6 bytes a token; with one trained on English alone, other scripts have 2.
"""


@dataclass(frozen=True)
class Document:
    """One document: its name in the source, its text, and the group that the source gives it."""

    name: str
    text: str
    group: str | None = None


class TextSize(NamedTuple):
    """Characters and UTF-8 bytes of a text."""

    characters: int
    bytes: int

    @property
    def tokens(self) -> int:
        """Estimated number of tokens."""
        return self.bytes // BYTES_PER_TOKEN

    def cut(self, most: int | None) -> TextSize:
        """About the size of its first `most` characters."""
        if most is None or most >= self.characters:
            return self
        return TextSize(most, self.bytes * most // self.characters)


def text_size(text: str) -> TextSize:
    """The size of a text."""
    return TextSize(len(text), len(text.encode("utf-8", "surrogatepass")))


class DocumentSource(FileModel, ABC):
    """The `documents` of a problem file; a kind declares `kind: Literal[…]` and its own keys.

    Plans assume `count` and `expected_tokens` before the documents are present. A document that is
    longer than a model's context fails for that model alone (`refuse`), is truncated (`truncate`),
    or is run if it is at most `margin` tokens longer (`run`).
    """

    kind: str
    count: int | None = Field(default=None, gt=0, description="number of documents")
    expected_tokens: int = Field(
        default=32_768, gt=0, description="tokens of the longest document, for plans"
    )
    max_characters: int | None = Field(
        default=None, gt=1, description="cut after the last word within this many characters"
    )
    max_tokens: int | None = Field(
        default=None, gt=1, description="cut at this many tokens; different text per tokenizer"
    )
    too_long: Literal["refuse", "truncate", "run"] = Field(
        default="refuse", description="documents longer than a model's context"
    )
    margin: int = Field(default=512, ge=0, description="excess tokens that `run` accepts")
    headroom: int = Field(
        default=0, ge=0, description="tokens of the context that `truncate` leaves free"
    )
    licence: str = Field(default="unknown", description="licence of the texts")
    groups: dict[str, str] = Field(
        default={}, description="group of documents: pattern of their names, e.g. `code: src/*`"
    )

    @model_validator(mode="before")
    @classmethod
    def _room_is_headroom(cls, keys: Any) -> Any:
        if isinstance(keys, dict) and "room" in keys:
            raise ValueError("room is called headroom since version 0.2")
        return keys

    @model_validator(mode="after")
    def _margin_and_headroom_are_used(self) -> DocumentSource:
        if "margin" in self.model_fields_set and self.too_long != "run":
            raise ValueError("margin goes with too_long: run")
        if self.headroom and self.too_long != "truncate":
            raise ValueError("headroom goes with too_long: truncate")
        return self

    def grouped(self, documents: list[Document]) -> list[Document]:
        """The documents, each with its group where `groups` has patterns.

        Raises:
            TokenmartError: a document's name fits no pattern, or those of two groups.
        """
        if not self.groups:
            return documents
        grouped = []
        for document in documents:
            fitting = [g for g, p in self.groups.items() if fnmatchcase(document.name, p)]
            if len(fitting) != 1:
                raise TokenmartError(
                    f"documents.groups: {document.name!r} fits the pattern of "
                    f"{' and '.join(fitting) or 'no group'}; each document has one group",
                    code="document-group",
                    where=document.name,
                )
            grouped.append(replace(document, group=fitting[0]))
        return grouped

    @abstractmethod
    def required_file(self, folders: ProblemFolders) -> RequiredFile:
        """Files that must be on disk; nothing is read or fetched."""

    @abstractmethod
    def source_sha256(self, folders: ProblemFolders) -> str:
        """Hash of all that the documents depend on; other documents have another.

        Raises:
            TokenmartError: the source is missing and can't be fetched, or was changed.
        """

    @abstractmethod
    def read(self, folders: ProblemFolders) -> list[Document]:
        """The documents in corpus order, fetched when they are missing.

        Raises:
            TokenmartError: missing and can't be fetched, changed, or malformed.
        """

    def is_here(self, folders: ProblemFolders) -> bool:
        """Whether the texts lie on this machine as files of the user's, to be read at any time."""
        return False

    def placed(self, folders: ProblemFolders) -> list[Document] | None:
        """The documents where they are here, for a plan: nothing is fetched or recorded.

        Raises:
            TokenmartError: a text is here and can't be read.
        """
        return self.read(folders) if self.is_here(folders) else None


def cut_text(text: str, characters: int | None) -> str:
    """The text up to the last word that ends within this number of characters; all of it for
    None.
    """
    if characters is None or len(text) <= characters:
        return text
    end = max(text.rfind(space, 0, characters + 1) for space in (" ", "\n", "\t"))
    return text[:end] if end > 0 else text[:characters]


def documents_table(documents: list[Document], max_characters: int | None = None) -> pa.Table:
    """The `documents` table of the warehouse, in the order given, each cut by `cut_text`.

    Controls read the corpus's next longer document in place of each (of the longest, the next
    shorter), so that their prefix is about as long as the document.
    """
    rows: list[dict[str, Any]] = []
    for number, document in enumerate(documents):
        text = cut_text(document.text, max_characters)
        encoded = text.encode("utf-8")
        rows.append(
            {
                "doc_id": number,
                "name": document.name,
                "sha256": hashlib.sha256(encoded).hexdigest(),
                "characters": len(text),
                "bytes": len(encoded),
                "text": text,
                "document_group": document.group,
            }
        )
    by_length = sorted(rows, key=lambda row: (row["characters"], row["doc_id"]))
    for row, foreign in zip(by_length, [*by_length[1:], *by_length[-2:-1]], strict=False):
        row["foreign_sha256"] = foreign["sha256"]
    return pa.Table.from_pylist(rows, schema=DOCUMENTS)


class PathDocuments(DocumentSource):
    """Documents of one file or folder, which may be placed by hand."""

    path: Path

    def is_here(self, folders: ProblemFolders) -> bool:
        """Whether the folder or file is there."""
        return folders.resolve(self.path).exists()

    def required_file(self, folders: ProblemFolders) -> RequiredFile:
        """The folder or file."""
        here = str(folders.resolve(self.path))
        return RequiredFile(str(self.path), self.is_here(folders), here)


class FolderDocuments(PathDocuments):
    """All .txt and .md files of a folder and its subfolders, sorted by path, or one such file."""

    kind: Literal["folder"]

    def source_sha256(self, folders: ProblemFolders) -> str:
        """sha256 of the names and contents of all files."""
        digest = hashlib.sha256()
        for name, file in self._files(folders):
            digest.update(f"{name}\0{sha256_file(file)}\n".encode())
        return digest.hexdigest()

    def read(self, folders: ProblemFolders) -> list[Document]:
        """The texts as they are; a file's path within the folder is its name."""
        return [
            Document(name, _with_text(read_text(file), file)) for name, file in self._files(folders)
        ]

    def _files(self, folders: ProblemFolders) -> list[tuple[str, Path]]:
        """Name and path of each text file, by name, in linked folders too; no hidden ones."""
        top = folders.resolve(self.path)
        if top.is_file():
            return [(top.name, top)]
        path_of = {
            path.relative_to(top).as_posix(): path
            for path in _files_below(top, set())
            if path.suffix.lower() in TEXT_ENDINGS and path.is_file()
        }
        shown = list(path_of)
        if not shown:
            raise TokenmartError(
                f"documents.path {top}: no file there that ends in {' or '.join(TEXT_ENDINGS)}",
                code="no-documents",
                where=top,
            )
        for name in shown:
            if name.encode(errors="ignore").decode() != name:
                what = f"{path_of[name]}: the file's name is not UTF-8; rename it"
                raise TokenmartError(what, code="not-utf-8", where=path_of[name])
        return [(name, path_of[name]) for name in sorted(shown)]


def _files_below(folder: Path, above: set[Path]) -> Iterator[Path]:
    """Files of a folder and its subfolders, hidden ones left out; a link is followed.

    Args:
        above: the folders that it is in, as they are on disk: a link to one of them is none of its
            subfolders.
    """
    place = folder.resolve()
    if place in above or not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _files_below(path, above | {place})
        else:
            yield path


class TableDocuments(DocumentSource):
    """Rows of Parquet, JSON, JSON-lines or CSV files, one document each.

    `path` is a file, a pattern such as `texts/*.parquet`, or an address that DuckDB reads, such as
    `hf://datasets/org/name@revision/*.parquet`. Documents come in order of files' names and rows.
    """

    kind: Literal["table"]
    path: str
    text: str = Field(default="text", description="column of the texts")
    id: str | None = Field(default=None, description="column of their names; default: the number")
    group: str | None = Field(default=None, description="column of their groups")

    @field_validator("path")
    @classmethod
    def _starts_at_the_problem_file(cls, path: str, info: ValidationInfo) -> str:
        return path if "://" in path else str(from_folder(Path(path), info))

    @model_validator(mode="after")
    def _groups_come_from_one_place(self) -> TableDocuments:
        if self.groups and self.group is not None:
            raise ValueError("give groups or group, not both")
        return self

    def is_here(self, folders: ProblemFolders) -> bool:
        """Whether a file is there; what is at an address isn't on this machine."""
        return "://" not in self.path and bool(self._files(folders))

    def required_file(self, folders: ProblemFolders) -> RequiredFile:
        """The files; an address is read when it is needed."""
        return RequiredFile(self.path, bool(self._files(folders)), self.path)

    def source_sha256(self, folders: ProblemFolders) -> str:
        """sha256 of the columns' names and the files; what is at an address is taken as fixed."""
        digest = hashlib.sha256(f"{self.text}\0{self.id}\0{self.group}\n".encode())
        for file in self._files(folders):
            sha256 = "" if "://" in file else sha256_file(Path(file))
            digest.update(f"{Path(file).name}\0{sha256}\n".encode())
        return digest.hexdigest()

    def read(self, folders: ProblemFolders) -> list[Document]:
        """The rows' texts as they are."""
        files = self._files(folders)
        wanted = {"text": self.text, "id": self.id, "group": self.group}
        nothing = TokenmartError(
            f"documents.path {self.path}: no row there", code="no-documents", where=self.path
        )
        with duckdb.connect() as connection:
            if not files or not (columns := load_rows(connection, files, "given", as_json=True)):
                raise nothing
            for setting, column in wanted.items():
                if column is not None and column not in columns:
                    raise TokenmartError(
                        f"documents.{setting}: {self.path} has no column {column!r}, only "
                        f"{', '.join(columns)}",
                        code="no-column",
                        where=f"documents.{setting}",
                    )
            types = {
                name: kind for name, kind, *_ in connection.execute("describe given").fetchall()
            }
            self._refuse_other_than_texts(connection, types[self.text])
            values = [
                "null"
                if name is None
                else f"{quoted(name)} ->> '$'"
                if types[name] == "JSON"
                else f"cast({quoted(name)} as varchar)"
                for name in wanted.values()
            ]
            rows = connection.execute(
                f"select row_number, {', '.join(values)} from given order by row_number"
            ).fetchall()
        if not rows:
            raise nothing
        return [
            Document(name or str(number - 1), _with_text(text, f"{self.path}: row {number}"), group)
            for number, text, name, group in rows
        ]

    def _refuse_other_than_texts(self, connection: duckdb.DuckDBPyConnection, kind: str) -> None:
        """Stop at a number or an object in the texts' column of the table `given`.

        Args:
            kind: the column's type; of a JSON file, each row has its own.
        """
        if kind == "VARCHAR":
            return
        type_sql = f"json_type({quoted(self.text)})" if kind == "JSON" else f"'{kind}'"
        wrong = connection.execute(
            f"select row_number, {type_sql} as found from given"
            " where found not in ('VARCHAR', 'NULL') order by row_number limit 1"
        ).fetchone()
        if wrong:
            row, other = wrong
            where = f"{self.path}: row {row}"
            raise TokenmartError(
                f"{where}: {self.text}: a text expected, found {other}",
                code="document-format",
                where=where,
            )

    def _files(self, folders: ProblemFolders) -> list[str]:
        if "://" in self.path:
            return [self.path]
        pattern = folders.resolve(Path(self.path))
        if pattern.is_file():
            return [str(pattern)]
        # a folder that is there is no pattern, whatever its name
        top = next(folder for folder in pattern.parents if folder.is_dir())
        paths = top.glob(str(pattern.relative_to(top)))
        return sorted(str(path) for path in paths if path.is_file())


def _with_text(text: str | None, where: object) -> str:
    """The text, which isn't empty."""
    if text is None or not text.strip():
        raise TokenmartError(f"{where}: contains no text", code="no-text", where=where)
    return text
