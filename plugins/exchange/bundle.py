"""Contents of a bundle according to its `manifest.json`; nothing else of it is opened."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, StringConstraints, ValidationError

from plugins.exchange.attached import Attached
from warehouse.errors import StorageError, TokenmartError
from warehouse.frozen import Frozen
from warehouse.paths import refuse_partitions
from warehouse.progress import Progress
from warehouse.remote import RemotePath, footer, remote_path
from warehouse.store.parquet_files import sha256_of_beginning
from warehouse.store.schema import SCHEMA_VERSION, TABLES

MANIFEST = "manifest.json"
CARD = "README.md"
SHARED = (
    "tokens", "top_tokens", "documents", "condition_pairs", "lineup", "models", "downstream",
    "recall_items",
)  # fmt: skip
"""Tables of the store that a bundle may contain; benchmarks' tables contain texts of unknown
licence.
"""

VALUES = {
    "metric_values": {
        "problem": pa.string(), "metric": pa.string(), "variant": pa.string(),
        "model_id": pa.string(), "value": pa.float64(), "tokens": pa.int64(),
        "documents": pa.int64(),
    },
    "metric_catalog": {
        "metric": pa.string(), "variant": pa.string(), "code": pa.string(),
        "written": pa.string(), "direction": pa.string(), "formula": pa.string(),
    },
    "downstream_scores": {
        "problem": pa.string(), "model_id": pa.string(), "task": pa.string(),
        "score": pa.float64(), "stderr": pa.float64(), "items": pa.int64(),
    },
}  # fmt: skip
"""Tables built by dbt in a bundle, one file each, with the columns that are read."""

_LARGEST_MANIFEST = 256 << 20
_NAME = r"(?!\.\.?(?:/|$))[A-Za-z0-9._@+=-]{1,255}"
_PATH = re.compile(rf"{_NAME}(?:/{_NAME}){{0,7}}")
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class BundleFile(Frozen):
    """One file: where, how large, what it hashes to."""

    may_be_huge: ClassVar[frozenset[str]] = frozenset({"bytes"})

    path: str
    bytes: int = Field(ge=0)
    sha256: Sha256


class Condition(Frozen):
    """Settings of reading tokens that must be equal to compare two labs' values."""

    kind: str
    params: str


class SharedModel(Frozen):
    """A model whose rows or values are in the bundle; `kind` is its series of doses."""

    may_be_huge: ClassVar[frozenset[str]] = frozenset({"parameters"})

    model_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._+-]{1,255}$")]
    full_id: str
    family: str
    kind: str
    parameters: int | None = None
    dtypes: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()


class SharedProblem(Frozen):
    """A problem, as far as another lab needs it to decide what is comparable.

    corpus: hash over ids and sha256 of all documents.
    texts: whether documents' texts and token rows are here; without, hashes and values alone.
    tasks: of the measured target, each with its number of items.
    rows: scored tokens.
    """

    may_be_huge: ClassVar[frozenset[str]] = frozenset({"rows"})

    title: str
    licence: str
    texts: bool
    corpus: Sha256
    documents: int
    conditions: dict[str, Condition]
    models: tuple[SharedModel, ...]
    tasks: dict[str, int]
    rows: int = 0


class Manifest(Frozen):
    """All of `manifest.json`."""

    format: Literal["tokenmart-bundle"]
    version: Literal[1]
    schema_version: int
    tokenmart_version: str
    problems: dict[str, SharedProblem]
    files: tuple[BundleFile, ...]

    def files_of(self, table: str) -> list[str]:
        """Paths of a table of the store."""
        return [file.path for file in self.files if file.path.startswith(f"data/{table}/")]


def corpus_sha256(documents: list[tuple[int, str]]) -> str:
    """A hash over (doc_id, sha256) of all documents of a problem."""
    lines = "".join(f"{doc_id} {sha256}\n" for doc_id, sha256 in sorted(documents))
    return hashlib.sha256(lines.encode()).hexdigest()


def place_of(address: str) -> Path:
    """A folder of this machine or a bucket, from what a user wrote.

    Raises:
        TokenmartError: it is no such address, or none that Parquet's folders go with.
    """
    place = remote_path(address) if "://" in address else Path(address).absolute()
    refuse_partitions(str(place), "rename the folder, or take another")
    return place


def read_manifest(address: str) -> tuple[Manifest, str]:
    """The manifest of a bundle and its sha256; its files aren't looked at.

    Raises:
        TokenmartError: none there, not one of ours, or of another version.
        StorageError: a bucket can't be read.
    """
    top = place_of(address)
    path = top / MANIFEST
    try:
        refuse_link(top, path)
        size = path.stat().st_size
        if not path.is_file():  # reading a named pipe would wait for a writer
            raise TokenmartError(f"{path}: not a file; this is no bundle")
        if size > _LARGEST_MANIFEST:
            raise TokenmartError(f"{path}: too large for a manifest; this is no bundle")
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise TokenmartError(
            f"{path}: no such file; give the folder or s3:// address that `tokenmart exchange "
            "export` has written to"
        ) from error
    except OSError as error:
        raise TokenmartError(f"{path}: can't be read ({error.strerror or error})") from error
    try:
        found = Manifest.model_validate(json.loads(content))
    except (ValidationError, ValueError, RecursionError) as error:
        text = " ".join(str(error).split())[:200]
        raise TokenmartError(
            f"{path}: not the manifest of a bundle ({text}); ask for a new export"
        ) from error
    if found.schema_version != SCHEMA_VERSION:
        raise TokenmartError(
            f"{path}: exported with schema version {found.schema_version}, this Tokenmart reads "
            f"{SCHEMA_VERSION}; export it again with this version"
        )
    for file in found.files:
        if not _PATH.fullmatch(file.path) or not has_a_place(file.path):
            raise TokenmartError(
                f"{path}: names a file where a bundle has none ({file.path[:100]!r}); nothing "
                "of it was read: don't trust where it comes from"
            )
    if len({file.path for file in found.files}) < len(found.files):
        raise TokenmartError(f"{path}: names a file twice; ask for a new export")
    return found, hashlib.sha256(content).hexdigest()


def unchanged(bundle: Attached) -> Manifest:
    """The manifest of an attached bundle.

    Raises:
        TokenmartError: it is gone, or is another than the one that was checked.
        StorageError: a bucket can't be read.
    """
    manifest, sha256 = read_manifest(bundle.address)
    if sha256 != bundle.sha256:
        raise TokenmartError(
            f"{bundle.address}: has changed since it was attached; run `tokenmart exchange attach "
            f"{bundle.address} --name {bundle.name}` to check it again"
        )
    return manifest


def verify(address: str, manifest: Manifest, progress: Progress) -> None:
    """Compare every file with the manifest, and Parquet with the schema; read once, in full.

    Raises:
        StorageError: a file is missing, a link, cut off, changed, or in the wrong place.
    """
    top = place_of(address)
    for file in manifest.files:
        path = top / file.path
        refuse_link(top, path)
        wrong = _wrong(path, file)
        if wrong:
            raise StorageError(
                f"{path}: {wrong}; nothing was attached: copy the bundle again, or ask for a new "
                "export"
            )
        progress("checking", 1)


def _wrong(path: Path, file: BundleFile) -> str:
    """The fault of a file; empty if it is intact."""
    try:
        size = path.stat().st_size
        if size != file.bytes:
            return f"{size:,} bytes, the manifest has {file.bytes:,}"
        if sha256_of_beginning(path, size) != file.sha256:
            return "another sha256 than the manifest's"
        if path.suffix != ".parquet":
            return ""
        columns = pq.read_schema(footer(path))
        part, table = file.path.split("/")[:2]
        if part == "data":
            present = [f for f in TABLES[table].schema if not f.nullable or f.name in columns.names]
            wanted = {field.name: field.type for field in present}
        else:
            wanted = VALUES[path.stem]
        for name, kind in wanted.items():
            if name not in columns.names or columns.field(name).type != kind:
                return f"its column {name} is missing or of another type"
    except FileNotFoundError:
        return "the file is missing"
    except (pa.ArrowException, OSError, ValueError) as error:
        return f"damaged ({' '.join(str(error).split())[:120]})"
    return ""


def has_a_place(path: str) -> bool:
    """Whether a bundle has a file of this name."""
    parts = path.split("/")
    if parts[0] == "data" and len(parts) > 2 and parts[1] in SHARED:
        keys = TABLES[parts[1]].keys
        folders = parts[2:-1]
        name = re.escape(TABLES[parts[1]].files).replace(r"\*", "[0-9a-f-]+")
        return (
            len(folders) == len(keys)
            and all(f.startswith(f"{k}=") for f, k in zip(folders, keys, strict=True))
            and re.fullmatch(name, parts[-1]) is not None
        )
    if parts[0] == "metrics":
        return path in {f"metrics/{name}.parquet" for name in VALUES}
    if parts[0] == "eval_results":
        return len(parts) == 5 and parts[-1].endswith(".json")
    return path == CARD


def refuse_link(top: Path, path: Path) -> None:
    """Stop at a link inside a bundle: it could lead anywhere on this machine.

    Raises:
        StorageError: the file, or a folder above it in the bundle, is one.
    """
    if isinstance(path, RemotePath):
        return
    while path != top:
        if path.is_symlink():
            raise StorageError(f"{path}: a link, where a bundle has files; nothing was read")
        path = path.parent
