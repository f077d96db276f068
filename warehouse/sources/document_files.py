"""Documents read from files: text, Markdown, JSON and JSON lines, as they are or in gzip.

The inner format of the locked proxy file is known only as far as its statement goes. What the
statement allows is read; everything else is refused with the row that is wrong.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from warehouse.errors import LockedFileError, StorageError, TokenmartError
from warehouse.strict_json import repeated_key

TEXT_ENDINGS = (".txt", ".md", ".txt.gz", ".md.gz")
LINES_ENDINGS = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
JSON_ENDINGS = (".json", ".json.gz", *LINES_ENDINGS)
LARGEST_TEXT_BYTES = 512 << 20
"""Of one text, unpacked."""

TEXT_FIELDS = ("text", "document", "content", "report", "input")
ID_FIELDS = ("id", "doc_id", "_id", "name")
TOKEN_FIELDS = ("input_ids", "token_ids", "tokens", "ids")
TOKENIZER_FIELDS = ("tokenizer", "tokenizer_name", "tokenizer_id")
WRAPPER_FIELDS = ("documents", "data", "examples", "rows", "items", "texts")
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


def unpacked(file: Path, content: bytes | None = None) -> bytes:
    """A file's bytes, unpacked where its name ends in .gz.

    Args:
        content: its bytes, where they were read already.

    Raises:
        TokenmartError: more than LARGEST_TEXT_BYTES.
        StorageError: it can't be read or unpacked.
    """
    try:
        with file.open("rb") if content is None else io.BytesIO(content) as stream:
            packed = file.name.lower().endswith(".gz")
            with gzip.open(stream) if packed else stream as reader:
                found = reader.read(LARGEST_TEXT_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise StorageError(
            f"{file}: damaged archive ({error}); delete it and fetch again"
        ) from error
    except OSError as error:
        raise StorageError(
            f"{file}: can't be read ({error.strerror or error}); correct the path, or make it "
            "readable"
        ) from error
    if len(found) > LARGEST_TEXT_BYTES:
        raise TokenmartError(
            f"{file}: more than {LARGEST_TEXT_BYTES >> 20} MiB of text; split it into several files"
        )
    return found


def read_text(file: Path) -> str:
    """The text of a file, unpacked where its name ends in .gz; a byte-order mark is left out.

    Raises:
        TokenmartError: it is empty, not UTF-8 or too large.
        StorageError: it is damaged.
    """
    content = unpacked(file)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TokenmartError(
            f"{file}: not UTF-8 at byte {error.start}; save it as UTF-8, or take it out of the "
            "folder"
        ) from error
    if not text.strip():
        raise TokenmartError(f"{file}: contains no text; take it out of the folder")
    return text


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
    if not path.name.lower().endswith(LINES_ENDINGS):
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
    if (twice := repeated_key(pairs)) is not None:
        raise ValueError(f"an object has the field {twice!r} twice")
    return dict(pairs)


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


def document_sizes(content: bytes, path: Path) -> list[TextSize]:
    """Size of each document of a JSON file, of token ids at 4 characters a token.

    Raises:
        LockedFileError: not in a known format.
    """
    rows, tokenizer = _rows(_parsed(content, path), path)
    return [_size(row, number, path, tokenizer) for number, row in enumerate(rows)]


def _size(row: Any, number: int, path: Path, tokenizer: str | None) -> TextSize:
    if isinstance(row, dict) and not any(key in row for key in TEXT_FIELDS):
        for key in TOKEN_FIELDS:
            if isinstance(row.get(key), list):
                return TextSize(*[BYTES_PER_TOKEN * len(row[key])] * 2)
    return text_size(_document(row, number, path, tokenizer).text)


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
