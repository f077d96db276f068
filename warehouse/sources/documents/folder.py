"""Documents in text files of this machine: plain text or Markdown, as they are or in gzip."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Literal

from warehouse.errors import TokenmartError
from warehouse.files import sha256_file
from warehouse.sources.archives import unpacked
from warehouse.sources.documents.interface import Document, DocumentSource
from warehouse.sources.place import Need, Place
from warehouse.text_file import is_text

ENDINGS = (".txt", ".md", ".txt.gz", ".md.gz")


class FolderDocuments(DocumentSource):
    """All text files of a folder and its subfolders, sorted by path, or one text file."""

    kind: Literal["folder"]
    path: Path

    def need(self, place: Place) -> Need:
        """The folder or file, which only the user can place."""
        here = place.resolve(self.path)
        remedy = f"place the texts at {here}, or correct documents.path in the problem file"
        return Need("documents", str(self.path), here.exists(), str(here), "local", remedy)

    def lengths(self, place: Place) -> list[int] | None:
        """Characters of each file; None where there is no such folder or file.

        Raises:
            TokenmartError: no text in it, or a file that is no text.
        """
        if not place.resolve(self.path).exists():
            return None
        return [len(document.text) for document in self.read(place)]

    def provenance(self, place: Place) -> dict[str, str]:
        """The path as the problem file gives it, and the hash of all files."""
        return {"path": self.path.as_posix(), "sha256": self.source_sha256(place)}

    def source_sha256(self, place: Place) -> str:
        """sha256 of the names and contents of all files.

        Raises:
            TokenmartError: no such folder, or no text in it.
        """
        digest = hashlib.sha256()
        for name, file in self._files(place):
            digest.update(f"{name}\0{sha256_file(file)}\n".encode())
        return digest.hexdigest()

    def read(self, place: Place) -> list[Document]:
        """The texts as they are; a file's path within the folder is its name.

        Raises:
            TokenmartError: no such folder, no text in it, or a file that is empty, not UTF-8 or too
                large.
        """
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
        texts = [name for name in names if name.lower().endswith(ENDINGS)]
        if not texts:
            endings = Counter(Path(name).suffix or "no ending" for name in names)
            others = ", ".join(f"{count} {ending}" for ending, count in endings.most_common(4))
            raise TokenmartError(
                f"documents.path {top}: no file that ends in {', '.join(ENDINGS)} (found: "
                f"{others or 'nothing'}); save texts as .txt, or use kind: json for .json, .jsonl"
            )
        for name in texts:
            if not is_text(name):
                raise TokenmartError(
                    f"documents.path {found[name]}: its name is not UTF-8; rename the file"
                )
        return [(name, found[name]) for name in texts]


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
