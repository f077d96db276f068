"""Read the contents of an export from its `manifest.json`."""

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
"""Tables of the store that an export may contain; tables of benchmarks contain texts with unknown
licences.
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
"""Tables built by dbt in an export, one file each, with their columns."""

_LARGEST_MANIFEST = 256 << 20
_NAME = r"(?!\.\.?(?:/|$))[A-Za-z0-9._@+=-]{1,255}"
_PATH = re.compile(rf"{_NAME}(?:/{_NAME}){{0,7}}")
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class BundleFile(Frozen):
    """One file: path, size and sha256."""

    may_be_huge: ClassVar[frozenset[str]] = frozenset({"bytes"})

    path: str
    bytes: int = Field(ge=0)
    sha256: Sha256


class Condition(Frozen):
    """Settings that must be equal to compare the token values of two labs."""

    kind: str
    params: str


class SharedModel(Frozen):
    """A model whose rows or values are in the export; `kind` is its series."""

    may_be_huge: ClassVar[frozenset[str]] = frozenset({"parameters"})

    model_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._+-]{1,255}$")]
    full_id: str
    family: str
    kind: str
    parameters: int | None = None
    dtypes: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()


class SharedProblem(Frozen):
    """Facts about a problem that another lab needs to compare results.

    corpus: hash over ids and sha256 of all documents.
    texts: whether the export has documents' texts and token rows; otherwise only hashes and values.
    tasks: tasks of the measured target, each with its number of items.
    rows: number of scored tokens.
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
    """Contents of `manifest.json`."""

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
    """The folder or bucket of an address.

    Raises:
        TokenmartError: the address is invalid, or not allowed in names of Parquet partitions.
    """
    place = remote_path(address) if "://" in address else Path(address).absolute()
    refuse_partitions(str(place), "rename the folder, or take another")
    return place


def read_manifest(address: str) -> tuple[Manifest, str]:
    """The manifest of an export and its sha256, without checking the files.

    Raises:
        TokenmartError: the manifest is missing, of another program or of another version.
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
    """The manifest of an attached export.

    Raises:
        TokenmartError: the manifest is missing, or has changed since it was checked.
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
    """Compare every file with the manifest, and Parquet files with the schema; reads all files.

    Raises:
        StorageError: a file is missing, truncated, changed, misplaced, or a link.
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
    """The defect of a file; empty if it is intact."""
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
    """Whether an export has a file of this name."""
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
    """Refuse a link inside an export, because it could point to any file of this machine.

    Raises:
        StorageError: the file, or a folder above it in the export, is a link.
    """
    if isinstance(path, RemotePath):
        return
    while path != top:
        if path.is_symlink():
            raise StorageError(f"{path}: a link, where a bundle has files; nothing was read")
        path = path.parent
