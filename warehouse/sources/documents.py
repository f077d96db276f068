"""Readers of document corpora: a proxy JSON file, or files inside a pinned package.

The inner format of the locked proxy file is known only as far as its statement goes. What the
statement allows is read; everything else is refused with the row that is wrong.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from warehouse.errors import LockedFileError, TokenmartError
from warehouse.sources.packages import archive_texts
from warehouse.store.schema import DOCUMENTS

TEXT_FIELDS = ("text", "document", "content", "report", "input")
ID_FIELDS = ("id", "doc_id", "_id", "name")
TOKEN_FIELDS = ("input_ids", "token_ids", "tokens", "ids")
TOKENIZER_FIELDS = ("tokenizer", "tokenizer_name", "tokenizer_id")
WRAPPER_FIELDS = ("documents", "data", "examples", "rows", "items", "texts")


@dataclass(frozen=True)
class Document:
    """One document: its name in the source, and its text."""

    name: str
    text: str


def documents_table(documents: list[Document]) -> pa.Table:
    """The `documents` table of the warehouse, in the order given."""
    rows = []
    for number, document in enumerate(documents):
        encoded = document.text.encode("utf-8")
        rows.append(
            {
                "doc_id": number,
                "name": document.name,
                "sha256": hashlib.sha256(encoded).hexdigest(),
                "characters": len(document.text),
                "bytes": len(encoded),
                "text": document.text,
            }
        )
    return pa.Table.from_pylist(rows, schema=DOCUMENTS)


def read_archive(path: Path, include: str, min_bytes: int = 0) -> list[Document]:
    """Text files of an archive matching `include` with at least `min_bytes` bytes, by path.

    Raises:
        TokenmartError: nothing matches, or a file is not UTF-8.
    """
    found = []
    for name, content in archive_texts(path, include):
        if len(content) < min_bytes:
            continue
        try:
            found.append(Document(name, content.decode("utf-8")))
        except UnicodeDecodeError as error:
            raise TokenmartError(
                f"{path}: {name} is not UTF-8 at byte {error.start}; narrow `include`"
            ) from error
    if not found:
        raise TokenmartError(
            f"{path}: no file matches {include!r} with at least {min_bytes} bytes; "
            "correct `include` in the problem file"
        )
    return found


def parse_documents(content: bytes, path: Path) -> list[Document]:
    """Documents of a proxy JSON file, from its bytes.

    Accepted: a list of strings; a list of objects with a text field (`text`, `document`,
    `content`, `report`, `input`) and optionally an id; an object that holds one such list;
    rows of token ids that name their tokenizer.

    Raises:
        LockedFileError: anything else; the message names the document.
    """
    try:
        parsed = json.loads(content)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise LockedFileError(f"{path}: not valid JSON ({error}); fetch it again") from error
    rows, tokenizer = _rows(parsed, path)
    return [_document(row, number, path, tokenizer) for number, row in enumerate(rows)]


def _rows(parsed: Any, path: Path) -> tuple[list[Any], str | None]:
    """The list of rows, and the tokenizer that a wrapper object names."""
    tokenizer = None
    if isinstance(parsed, dict):
        tokenizer = next((parsed[key] for key in TOKENIZER_FIELDS if key in parsed), None)
        lists = [key for key in WRAPPER_FIELDS if isinstance(parsed.get(key), list)]
        lists = lists or [key for key, value in parsed.items() if isinstance(value, list)]
        if len(lists) != 1:
            raise LockedFileError(
                f"{path}: an object must hold exactly one list of documents, found "
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
        raise LockedFileError(f"{where}: empty; a document must hold text")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise LockedFileError(
            f"{where}: character {error.start} is half a surrogate pair, not text"
        ) from error
    return Document(name, text)


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
