"""Documents of one JSON file, which may be locked; its inner format is known as far as its
statement goes.

What the statement allows is read; everything else is refused with the row that is wrong.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

from warehouse.errors import LockedFileError
from warehouse.sources.documents import Document, PathDocuments
from warehouse.sources.folders import ProblemFolders
from warehouse.sources.lock_file import check_sha256, ensure_locked_file
from warehouse.strict_json import StrictJsonError, parse_json

TEXT_FIELDS = ("text", "document", "content", "report", "input")
ID_FIELDS = ("id", "doc_id", "_id", "name")
TOKEN_FIELDS = ("input_ids", "token_ids", "tokens", "ids")
TOKENIZER_FIELDS = ("tokenizer", "tokenizer_name", "tokenizer_id")
WRAPPER_FIELDS = ("documents", "data", "examples", "rows", "items", "texts")


class JsonDocuments(PathDocuments):
    """Documents in one JSON file.

    `locked` records its sha256 at first use and refuses a changed file.
    """

    kind: Literal["json"]
    url: str | None = None
    locked: bool = False

    def placed(self, folders: ProblemFolders) -> list[Document] | None:
        """The documents; nothing is fetched or recorded."""
        file = folders.resolve(self.path)
        return parse_documents(file.read_bytes(), file) if self.is_here(folders) else None

    def source_sha256(self, folders: ProblemFolders) -> str:
        """sha256 of the file."""
        return hashlib.sha256(self._content(folders)).hexdigest()

    def read(self, folders: ProblemFolders) -> list[Document]:
        """The documents of the file."""
        return parse_documents(self._content(folders), folders.resolve(self.path))

    def _content(self, folders: ProblemFolders) -> bytes:
        file = ensure_locked_file(self.path, self.url, folders, "documents")
        content = file.read_bytes()
        if self.locked:
            sha256 = hashlib.sha256(content).hexdigest()
            check_sha256(folders.workspace, folders.problem, file, sha256)
        return content


def parse_documents(content: bytes, path: Path) -> list[Document]:
    """Documents of a JSON file, from its bytes.

    Accepted: a list of strings; a list of objects with a text field (`text`, `document`,
    `content`, `report`, `input`) and optionally an id; an object that contains one such list;
    rows of token ids that name their tokenizer.

    Raises:
        LockedFileError: anything else; the message names the document.
    """
    try:
        parsed = parse_json(content)
    except StrictJsonError as error:
        raise LockedFileError(f"{path}: {error}", code="not-json", where=path) from error
    tokenizer = None
    if isinstance(parsed, dict):
        tokenizer = next((parsed[key] for key in TOKENIZER_FIELDS if key in parsed), None)
        lists = [key for key in WRAPPER_FIELDS if isinstance(parsed.get(key), list)]
        lists = lists or [key for key, value in parsed.items() if isinstance(value, list)]
        if len(lists) != 1:
            raise _refused(path, f"one list of documents expected, found {lists}")
        parsed = parsed[lists[0]]
    if not isinstance(parsed, list) or not parsed:
        raise _refused(path, "a list of documents expected")
    return [_document(row, number, path, tokenizer) for number, row in enumerate(parsed)]


def _refused(path: Path, what: str, document: str = "") -> LockedFileError:
    where = f"{path}: {document}" if document else str(path)
    return LockedFileError(f"{where}: {what}", code="document-format", where=where)


def _document(row: Any, number: int, path: Path, tokenizer: Any) -> Document:
    name = str(number)
    text: Any = row
    if isinstance(row, dict):
        name = next((str(row[key]) for key in ID_FIELDS if row.get(key) is not None), name)
        fields = [key for key in TEXT_FIELDS if key in row]
        text = row[fields[0]] if fields else _decoded(row, number, path, tokenizer)
    document = f"document {number}" + (f" (id {name!r})" if name != str(number) else "")
    if not isinstance(text, str):
        raise _refused(path, f"a text expected, found {type(text).__name__}", document)
    if not text.strip():
        raise _refused(path, "contains no text", document)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        what = f"character {error.start} is half a surrogate pair"
        raise _refused(path, what, document) from error
    return Document(name, text)


def _decoded(row: dict[str, Any], number: int, path: Path, tokenizer: Any) -> str:
    """Text of a row that has token ids only; it or its wrapper must name the tokenizer."""
    document = f"document {number}"
    ids = next((row[key] for key in TOKEN_FIELDS if isinstance(row.get(key), list)), None)
    if ids is None or not all(type(value) is int for value in ids):
        what = f"no text in any of {', '.join(TEXT_FIELDS)}; found {', '.join(map(str, row))}"
        raise _refused(path, what, document)
    name = next((row[key] for key in TOKENIZER_FIELDS if row.get(key)), tokenizer)
    if not isinstance(name, str):
        what = f"token ids without the name of their tokenizer; add {TOKENIZER_FIELDS[0]!r}"
        raise _refused(path, what, document)
    from transformers import AutoTokenizer

    try:
        decode = AutoTokenizer.from_pretrained(name).decode
    except (OSError, ValueError) as error:
        what = f"the tokenizer {name!r} can't be loaded ({str(error).splitlines()[0]})"
        raise _refused(path, what, document) from error
    return str(decode(ids, skip_special_tokens=True))
