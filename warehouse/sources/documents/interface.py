"""The interface of document sources: one class per kind, each in its own file."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Literal

import pyarrow as pa
from pydantic import Field, model_validator

from warehouse.errors import TokenmartError
from warehouse.frozen import Frozen
from warehouse.sources.place import Need, Place
from warehouse.store.schema import DOCUMENTS


@dataclass(frozen=True)
class Document:
    """One document: its name in the source, its text, and the group that the source gives it."""

    name: str
    text: str
    group: str | None = None


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

    def lengths(self, place: Place) -> list[int] | None:
        """Characters of each document, where the texts are on this machine to be read; else None.

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
