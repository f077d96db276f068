"""Sources of documents: the interface, and the kinds that ship (folder, json, sdist)."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pydantic import Field, model_validator

from warehouse.errors import TokenmartError
from warehouse.files import sha256_file
from warehouse.frozen import Frozen
from warehouse.sources.document_files import (
    TEXT_ENDINGS,
    Document,
    TextSize,
    document_sizes,
    parse_documents,
    read_text,
    text_size,
    unpacked,
)
from warehouse.sources.lock_file import check_sha256
from warehouse.sources.place import Need, Pinned, Place
from warehouse.store.schema import DOCUMENTS


class DocumentSource(Frozen, ABC):
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
    room: int = Field(
        default=0, ge=0, description="headroom: tokens of the context that `truncate` reserves"
    )
    licence: str = Field(default="unknown", description="licence of the texts")
    groups: dict[str, str] = Field(
        default={}, description="group of documents: pattern of their names, e.g. `code: src/*`"
    )

    @model_validator(mode="after")
    def _margin_and_room_are_used(self) -> DocumentSource:
        if "margin" in self.model_fields_set and self.too_long != "run":
            raise ValueError("margin goes with too_long: run")
        if self.room and self.too_long != "truncate":
            raise ValueError("room goes with too_long: truncate")
        return self

    @property
    def grouping(self) -> str:
        """What the documents' groups depend on besides the source; empty without groups."""
        return f"groups {json.dumps(self.groups)}" if self.groups else ""

    def grouped(self, documents: list[Document]) -> list[Document]:
        """The documents, each with its group where `groups` has patterns.

        Raises:
            TokenmartError: a document's name fits no pattern, or those of two groups.
        """
        if not self.groups:
            return documents
        found = []
        for document in documents:
            fitting = [g for g, p in self.groups.items() if fnmatchcase(document.name, p)]
            if len(fitting) != 1:
                raise TokenmartError(
                    f"documents.groups: {document.name!r} fits the pattern of "
                    f"{' and '.join(fitting) or 'no group'}; correct the patterns so that each "
                    "document has one group"
                )
            found.append(replace(document, group=fitting[0]))
        return found

    @abstractmethod
    def need(self, place: Place) -> Need:
        """Files that must be on disk; nothing is read or fetched."""

    def sizes(self, place: Place) -> list[TextSize] | None:
        """Size of each document, where the texts are on this machine to be read; else None.

        For a plan: nothing is fetched, recorded or checked against a record.

        Raises:
            TokenmartError: a text is here and can't be read.
        """
        return None

    @abstractmethod
    def provenance(self, place: Place) -> dict[str, str]:
        """The source in a submission's bundle: its name, and its `sha256`.

        Raises:
            TokenmartError: the source is missing and can't be fetched, or was changed.
        """

    @abstractmethod
    def source_sha256(self, place: Place) -> str:
        """Hash of all that the documents depend on; other documents have another.

        Raises:
            TokenmartError: the source is missing and can't be fetched, or was changed.
        """

    @abstractmethod
    def read(self, place: Place) -> list[Document]:
        """The documents in corpus order, fetched when they are missing.

        Raises:
            TokenmartError: missing and can't be fetched, changed, or malformed.
        """


def cut_text(text: str, characters: int | None) -> str:
    """The text up to the last word that ends within this number of characters; all of it for
    None.
    """
    if characters is None or len(text) <= characters:
        return text
    spaces = (text.rfind(space, 0, characters + 1) for space in (" ", "\n", "\t"))
    end = max(spaces)
    return text[:end] if end > 0 else text[:characters]


def documents_table(documents: list[Document], max_characters: int | None = None) -> pa.Table:
    """The `documents` table of the warehouse, in the order given, each cut by `cut_text`."""
    rows = []
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
    return pa.Table.from_pylist(rows, schema=DOCUMENTS)


class _PlacedDocuments(DocumentSource):
    """Documents at a path of this machine."""

    path: Path

    def provenance(self, place: Place) -> dict[str, str]:
        """The path as the problem file gives it, and the hash of what is there."""
        return {"path": self.path.as_posix(), "sha256": self.source_sha256(place)}


class FolderDocuments(_PlacedDocuments):
    """All text files of a folder and its subfolders, sorted by path, or one text file."""

    kind: Literal["folder"]

    def need(self, place: Place) -> Need:
        """The folder or file, which only the user can place."""
        here = place.resolve(self.path)
        remedy = f"place the texts at {here}, or correct documents.path in the problem file"
        return Need("documents", str(self.path), here.exists(), str(here), "local", remedy)

    def sizes(self, place: Place) -> list[TextSize] | None:
        """Size of each file; None where there is no such folder or file."""
        if not place.resolve(self.path).exists():
            return None
        return [text_size(document.text) for document in self.read(place)]

    def source_sha256(self, place: Place) -> str:
        """sha256 of the names and contents of all files."""
        digest = hashlib.sha256()
        for name, file in self._files(place):
            digest.update(f"{name}\0{sha256_file(file)}\n".encode())
        return digest.hexdigest()

    def read(self, place: Place) -> list[Document]:
        """The texts as they are; a file's path within the folder is its name."""
        return [Document(name, read_text(file)) for name, file in self._files(place)]

    def _files(self, place: Place) -> list[tuple[str, Path]]:
        """Name and path of each text file, by name; hidden ones are left out."""
        top = place.resolve(self.path)
        if top.is_file():
            return [(top.name, top)]
        if not top.is_dir():
            raise TokenmartError(
                f"documents.path {top}: no such folder or file; correct it in the problem file"
            )
        found = {path.relative_to(top).as_posix(): path for path in top.rglob("*")}
        names = sorted(
            name
            for name, path in found.items()
            if path.is_file() and not any(part.startswith(".") for part in name.split("/"))
        )
        texts = [name for name in names if name.lower().endswith(TEXT_ENDINGS)]
        if not texts:
            endings = Counter(Path(name).suffix or "no ending" for name in names)
            others = ", ".join(f"{count} {ending}" for ending, count in endings.most_common(4))
            raise TokenmartError(
                f"documents.path {top}: no file that ends in {', '.join(TEXT_ENDINGS)} (found: "
                f"{others or 'nothing'}); save texts as .txt, or use kind: json for .json, .jsonl"
            )
        for name in texts:
            if name != name.encode("utf-8", "ignore").decode():
                raise TokenmartError(
                    f"documents.path {found[name]}: its name is not UTF-8; rename the file"
                )
        return [(name, found[name]) for name in texts]


class JsonDocuments(_PlacedDocuments):
    """Documents in one file: .json, or .jsonl with one document per line; .gz is decompressed.

    `locked` records its sha256 at first use and refuses a changed file.
    """

    kind: Literal["json"]
    url: str | None = None
    locked: bool = False
    group_field: str | None = Field(
        default=None, description="field of a document that has its group, e.g. `source`"
    )

    @model_validator(mode="after")
    def _groups_come_from_one_place(self) -> JsonDocuments:
        if self.groups and self.group_field is not None:
            raise ValueError("give groups or group_field, not both")
        return self

    @property
    def grouping(self) -> str:
        """What the documents' groups depend on besides the file; empty without groups."""
        return super().grouping if self.group_field is None else f"groups in {self.group_field}"

    def need(self, place: Place) -> Need:
        """The file, which may be placed by hand."""
        file = place.resolve(self.path)
        remedy = f"{place.fetch_command} --only documents, or place the file by hand"
        source = "a locked file" if self.locked else "a file"
        return Need("documents", str(self.path), file.is_file(), str(file), source, remedy)

    def sizes(self, place: Place) -> list[TextSize] | None:
        """Size of each document, of ids at 4 characters a token; None where there is no file."""
        file = place.resolve(self.path)
        if not file.is_file():
            return None
        return document_sizes(unpacked(file), file)

    def source_sha256(self, place: Place) -> str:
        """sha256 of the file."""
        return hashlib.sha256(self._content(place)).hexdigest()

    def read(self, place: Place) -> list[Document]:
        """The documents of the file."""
        file = place.resolve(self.path)
        return parse_documents(unpacked(file, self._content(place)), file, self.group_field)

    def _content(self, place: Place) -> bytes:
        file = place.resolve(self.path)
        if not self.locked and self.url is None and not file.exists():
            raise TokenmartError(
                f"documents.path {file}: no such file; correct it in the problem file"
            )
        from warehouse.sources.download import ensure_locked_file

        content = ensure_locked_file(self.path, self.url, place, "documents").read_bytes()
        if self.locked:
            sha256 = hashlib.sha256(content).hexdigest()
            check_sha256(place.workspace, place.problem, file, sha256)
        return content


class PinnedArchive(Frozen):
    """Text files inside one wheel or source distribution of a pinned package."""

    package: Pinned
    archive: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    include: str
    licence: str = "unknown"

    def archive_need(self, kind: Literal["documents", "target"], place: Place) -> Need:
        """The archive."""
        path = place.archives / self.archive
        remedy = f"{place.fetch_command} --only {kind}"
        return Need(kind, self.archive, path.is_file(), str(path), self.package, remedy)

    def texts(self, place: Place, min_bytes: int = 0) -> list[tuple[str, str]]:
        """(path, text) of the files matching `include`, sorted by path; fetched when missing.

        Args:
            min_bytes: files with fewer are left out.

        Raises:
            TokenmartError: it can't be fetched, has another hash, nothing matches, or a file is
                not UTF-8.
        """
        from warehouse.sources.packages import archive_texts, fetched_archive

        path = fetched_archive(self.package, self.archive, self.sha256, place)
        found = []
        for name, content in archive_texts(path, self.include):
            if len(content) < min_bytes:
                continue
            try:
                found.append((name, content.decode("utf-8")))
            except UnicodeDecodeError as error:
                raise TokenmartError(
                    f"{path}: {name} is not UTF-8 at byte {error.start}; narrow `include`"
                ) from error
        if not found:
            raise TokenmartError(
                f"{path}: no file matches {self.include!r} with at least {min_bytes} bytes; "
                "correct `include` in the problem file"
            )
        return found


class SdistDocuments(PinnedArchive, DocumentSource):
    """The first `count` matching files with at least `min_bytes` bytes, sorted by path."""

    kind: Literal["sdist"]
    count: int = Field(gt=0)
    min_bytes: int = Field(default=1, ge=1)

    def need(self, place: Place) -> Need:
        """The archive, which isn't needed again once the documents are a table."""
        need = self.archive_need("documents", place)
        return replace(need, present=need.present or place.documents_table.is_file())

    def provenance(self, place: Place) -> dict[str, str]:
        """The archive and its hash."""
        return {"archive": self.archive, "sha256": self.sha256}

    def source_sha256(self, place: Place) -> str:
        """Hash of the archive's hash and the selection."""
        selection = [self.sha256, self.include, self.min_bytes, self.count]
        return hashlib.sha256(json.dumps(selection).encode()).hexdigest()

    def read(self, place: Place) -> list[Document]:
        """The selected files; their paths are the documents' names."""
        texts = self.texts(place, self.min_bytes)
        if len(texts) < self.count:
            raise TokenmartError(
                f"{self.archive}: {len(texts)} files match {self.include!r} with at least "
                f"{self.min_bytes} bytes, {self.count} are asked for; lower `count`"
            )
        return [Document(name, text) for name, text in texts[: self.count]]
