"""Documents in one JSON file, or JSON lines: texts, objects with a text, or token ids.

The inner format of the locked proxy file is known only as far as its statement goes. What the
statement allows is read; everything else is refused with the row that is wrong.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from warehouse.errors import LockedFileError, TokenmartError
from warehouse.sources.archives import unpacked
from warehouse.sources.documents.interface import Document, DocumentSource
from warehouse.sources.lock_file import check_sha256
from warehouse.sources.locked_files import ensure_locked_file
from warehouse.sources.place import Need, Place

TEXT_FIELDS = ("text", "document", "content", "report", "input")
ID_FIELDS = ("id", "doc_id", "_id", "name")
TOKEN_FIELDS = ("input_ids", "token_ids", "tokens", "ids")
TOKENIZER_FIELDS = ("tokenizer", "tokenizer_name", "tokenizer_id")
WRAPPER_FIELDS = ("documents", "data", "examples", "rows", "items", "texts")
LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
_CHARACTERS_PER_TOKEN = 4


class JsonDocuments(DocumentSource):
    """Documents in one file: .json, or .jsonl with one document per line; .gz is decompressed.

    `locked` records its sha256 at first use and refuses a changed file.
    """

    kind: Literal["json"]
    path: Path
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

    def lengths(self, place: Place) -> list[int] | None:
        """Characters of each document, of token ids at 4 a token; None where there is no file.

        Raises:
            LockedFileError: not in a known format.
        """
        file = place.resolve(self.path)
        if not file.is_file():
            return None
        rows, tokenizer = _rows(_parsed(unpacked(file), file), file)
        return [_length(row, number, file, tokenizer) for number, row in enumerate(rows)]

    def provenance(self, place: Place) -> dict[str, str]:
        """The file's path as the problem file gives it, and its hash."""
        return {"path": self.path.as_posix(), "sha256": self.source_sha256(place)}

    def source_sha256(self, place: Place) -> str:
        """sha256 of the file.

        Raises:
            LockedFileError: missing and not to be had, or changed since its first use.
        """
        return hashlib.sha256(self._content(place)).hexdigest()

    def read(self, place: Place) -> list[Document]:
        """The documents of the file.

        Raises:
            LockedFileError: missing, changed since its first use, or not in a known format.
        """
        file = place.resolve(self.path)
        return parse_documents(unpacked(file, self._content(place)), file, self.group_field)

    def _content(self, place: Place) -> bytes:
        file = place.resolve(self.path)
        if not self.locked and self.url is None and not file.exists():
            raise TokenmartError(
                f"documents.path {file}: no such file; correct it in the problem file"
            )
        file = ensure_locked_file(self.path, self.url, place, "documents")
        content = file.read_bytes()
        if self.locked:
            sha256 = hashlib.sha256(content).hexdigest()
            check_sha256(place.workspace, place.problem, file, sha256)
        return content


def parse_documents(content: bytes, path: Path, group_field: str | None = None) -> list[Document]:
    """Documents of a JSON file or of JSON lines, from its bytes.

    Accepted: a list of strings; a list of objects with a text field (`text`, `document`,
    `content`, `report`, `input`) and optionally an id; an object that contains one such list;
    rows of token ids that name their tokenizer. JSON lines have one row on each line. With
    `group_field`, each document is an object with a text in that field, its group.

    Raises:
        LockedFileError: anything else; the message names the document.
    """
    rows, tokenizer = _rows(_parsed(content, path), path)
    documents = [_document(row, number, path, tokenizer) for number, row in enumerate(rows)]
    if group_field is None:
        return documents
    return [
        replace(document, group=_group(row, f"{path}: document {number}", group_field))
        for number, (row, document) in enumerate(zip(rows, documents, strict=True))
    ]


def _group(row: Any, where: str, field: str) -> str:
    group = row.get(field) if isinstance(row, dict) else None
    if not isinstance(group, str) or not group.strip():
        given = "no such field" if group is None else repr(group)
        raise LockedFileError(
            f"{where}: field {field!r} must be a text, the document's group, found {given}; "
            "correct the file, or documents.group_field in the problem file"
        )
    return group


def _parsed(content: bytes, path: Path) -> Any:
    if not path.name.lower().endswith(LINES):
        try:
            return json.loads(content, object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            raise LockedFileError(
                f"{path}: not valid JSON ({error}); fetch it again, or correct it (JSON lines are "
                "read from a file that ends in .jsonl)"
            ) from error
    rows = []
    for number, line in enumerate(content.splitlines(), start=1):
        if line.strip():
            try:
                rows.append(json.loads(line, object_pairs_hook=_unique))
            except (ValueError, RecursionError) as error:
                raise LockedFileError(
                    f"{path}: line {number} is not valid JSON ({error}); each line is a text in "
                    "quotes, or an object with one"
                ) from error
    return rows


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; of two equal fields, Python would keep the last and drop a text unseen."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the field {twice!r} twice")
    return found


def _rows(parsed: Any, path: Path) -> tuple[list[Any], str | None]:
    """The list of rows, and the tokenizer that a wrapper object names."""
    tokenizer = None
    if isinstance(parsed, dict):
        tokenizer = next((parsed[key] for key in TOKENIZER_FIELDS if key in parsed), None)
        lists = [key for key in WRAPPER_FIELDS if isinstance(parsed.get(key), list)]
        lists = lists or [key for key, value in parsed.items() if isinstance(value, list)]
        if len(lists) != 1:
            raise LockedFileError(
                f"{path}: an object must contain exactly one list of documents, found "
                f"{len(lists)} ({', '.join(lists) or 'none'}); expected a list of texts, or "
                f"of objects with one of: {', '.join(TEXT_FIELDS)}"
            )
        parsed = parsed[lists[0]]
    if not isinstance(parsed, list) or not parsed:
        raise LockedFileError(
            f"{path}: expected a list with documents, found an empty or other value"
        )
    return parsed, tokenizer


def _document(row: Any, number: int, path: Path, tokenizer: str | None) -> Document:
    name = str(number)
    text: Any = row
    if isinstance(row, dict):
        name = next((str(row[key]) for key in ID_FIELDS if row.get(key) is not None), name)
        fields = [key for key in TEXT_FIELDS if key in row]
        text = row[fields[0]] if fields else _decoded(row, number, path, tokenizer)
    where = f"{path}: document {number}" + (f" (id {name!r})" if name != str(number) else "")
    if not isinstance(text, str):
        raise LockedFileError(f"{where}: expected a text, found {type(text).__name__}")
    if not text.strip():
        raise LockedFileError(f"{where}: empty; a document must contain text")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise LockedFileError(
            f"{where}: character {error.start} is half a surrogate pair, not text"
        ) from error
    return Document(name, text)


def _length(row: Any, number: int, path: Path, tokenizer: str | None) -> int:
    if isinstance(row, dict) and not any(key in row for key in TEXT_FIELDS):
        for key in TOKEN_FIELDS:
            if isinstance(row.get(key), list):
                return _CHARACTERS_PER_TOKEN * len(row[key])
    return len(_document(row, number, path, tokenizer).text)


def _decoded(row: dict[str, Any], number: int, path: Path, tokenizer: str | None) -> str:
    """Text of a row that has token ids only; it or its wrapper must name the tokenizer."""
    ids = next((row[key] for key in TOKEN_FIELDS if isinstance(row.get(key), list)), None)
    if ids is None or not all(type(value) is int for value in ids):
        raise LockedFileError(
            f"{path}: document {number}: no text field; expected one of "
            f"{', '.join(TEXT_FIELDS)}, found {', '.join(map(str, row)) or 'none'}"
        )
    named = next((row[key] for key in TOKENIZER_FIELDS if row.get(key)), tokenizer)
    if not isinstance(named, str):
        raise LockedFileError(
            f"{path}: document {number}: token ids without the name of their tokenizer; "
            f"text can't be recovered: add {TOKENIZER_FIELDS[0]!r}, or use a file with texts"
        )
    return str(_load_tokenizer(named, path).decode(ids, skip_special_tokens=True))


def _load_tokenizer(name: str, path: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise LockedFileError(
            f"{path}: its tokenizer {name!r} can't be loaded ({str(error).splitlines()[0]}); "
            "check the network"
        ) from error
