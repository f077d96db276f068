"""Documents that are text files inside a pinned source distribution (or wheel)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Literal

from pydantic import Field

from warehouse.errors import TokenmartError
from warehouse.sources.archives import PinnedArchive
from warehouse.sources.documents.interface import Document, DocumentSource
from warehouse.sources.place import Need, Place


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
        """The selected files; their paths are the documents' names.

        Raises:
            TokenmartError: the archive can't be fetched, has another hash, or contains too few.
        """
        texts = self.texts(place, self.min_bytes)
        if len(texts) < self.count:
            raise TokenmartError(
                f"{self.archive}: {len(texts)} files match {self.include!r} with at least "
                f"{self.min_bytes} bytes, {self.count} are asked for; lower `count`"
            )
        return [Document(name, text) for name, text in texts[: self.count]]
