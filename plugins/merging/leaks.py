"""Search a participant's folder for hidden items: in every file, also inside archives.

Only the ASCII letters and digits of texts are compared, in lower case, so that quoting, escapes,
line ends and UTF-16 make no difference. A file that can't be inspected is an error.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat
import string
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from plugins.merging.texts import Item
from warehouse.errors import TokenmartError, visible
from warehouse.progress import Progress, no_progress, progress_bar

_CHUNK = 1 << 22
_CARRIED = 1 << 14
"""Overlap of two chunks in bytes: more than the size of an item in any encoding."""
_MOST_UNPACKED = 1 << 33
_DEEPEST = 5
FEWEST_LETTERS = 8
"""Minimum number of letters and digits of a text to search for; the first ones identify it."""
_DROPPED = bytes(set(range(256)) - set((string.ascii_letters + string.digits).encode()))
_LOWER = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
_OPENERS: dict[bytes, Any] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": lambda file: pa.CompressedInputStream(file, "zstd"),
    b"\x04\x22\x4d\x18": lambda file: pa.CompressedInputStream(file, "lz4"),
}
_UNREADABLE = (
    OSError, EOFError, ValueError, RuntimeError, MemoryError, struct.error, zlib.error,
    lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, pa.ArrowException, duckdb.Error,
)  # fmt: skip


def refuse_leaks(folder: Path, out: Path, items: Sequence[Item], secret: str) -> None:
    """Refuse a participant's folder that contains a hidden item or the secret; shows progress.

    Args:
        folder: the participant's.
        out: folder of the hidden sets.
        items: items of the hidden sets.
        secret: the secret that they were drawn with.

    Raises:
        TokenmartError: the folder contains one, can't be inspected or is not a folder, or `out` is
            inside it.
    """
    if not folder.is_dir():
        raise TokenmartError(f"--participant {folder}: no such folder; correct the path")
    if out.resolve().is_relative_to(folder.resolve()):
        raise TokenmartError(f"--out {out}: is in the participant's folder; choose another")
    with progress_bar(len(files_of(folder)), "files") as progress:
        found = leaks(folder, items, secret, progress)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise TokenmartError(
            f"{found[0]}{more}: contains a hidden item or the secret; remove it, and draw new sets "
            "with another secret"
        )


def leaks(
    folder: Path, items: Sequence[Item], secret: str = "", progress: Progress = no_progress
) -> list[str]:
    """Files of a participant's folder that contain a hidden item or the secret.

    Args:
        folder: the folder, with all its subfolders; links to folders are not followed.
        items: hidden items.
        secret: the secret; not searched for if it has fewer than `FEWEST_LETTERS`.
        progress: called for each file of `files_of`.

    Raises:
        TokenmartError: a file can't be inspected: unreadable, encrypted, damaged, nested too
            deeply, or too large when unpacked.
    """
    keys = {_letters(_shown(item).encode()) for item in items} | {_letters(secret.encode())}
    needles = _Needles(key for key in keys if len(key) >= FEWEST_LETTERS)
    found = []
    for path in files_of(folder):
        name = visible(str(path)).replace("\n", "\\n")
        try:
            with path.open("rb") as file:
                if any(needles.are_in(stream) for stream in _Looking(path).streams(file)):
                    found.append(name)
        except FileNotFoundError:
            continue  # the file was removed meanwhile
        except _UNREADABLE as error:
            why = " ".join(str(error).split())[:200] or type(error).__name__
            raise TokenmartError(
                f"{name}: can't be looked into ({why}); unpack it or remove it"
            ) from error
        progress("files looked into", 1)
    return found


def files_of(folder: Path) -> list[Path]:
    """Regular files of a folder and its subfolders, in order; no pipes or devices.

    Raises:
        TokenmartError: the folder or a subfolder can't be read.
    """

    def stop(error: OSError) -> None:
        raise TokenmartError(
            f"{visible(str(error.filename))}: can't be looked into ({error.strerror}); "
            "give a folder that can be read"
        )

    found = []
    for place, _, names in os.walk(folder, onerror=stop):
        for name in names:
            path = Path(place, name)
            try:
                regular = stat.S_ISREG(path.stat().st_mode)
            except OSError:
                continue  # a broken or circular link
            if regular:
                found.append(path)
    return sorted(found)


def _shown(item: Item) -> str:
    """A prompt without its template: the part that identifies a copied item."""
    return "\n".join(item.prompt.split("\n")[:-1]).removeprefix("Question: ")


def _letters(data: bytes) -> bytes:
    """Letters and digits of a text, without those of JSON escapes."""
    data = data.translate(None, b"\x00")
    for escape in (rb"\n", rb"\r", rb"\t"):
        data = data.replace(escape, b"")
    return data.translate(_LOWER, _DROPPED)


class _Needles:
    """Texts to search for together; pairs of letters select the few positions to compare."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        starts: dict[bytes, list[bytes]] = {}
        for key in keys:
            starts.setdefault(key[:FEWEST_LETTERS], []).append(key)
        self.keys = {start: tuple(found) for start, found in starts.items()}
        self.tables = np.zeros((FEWEST_LETTERS // 2, 1 << 16), dtype=bool)
        for start in self.keys:
            for place, table in enumerate(self.tables):
                table[int.from_bytes(start[2 * place : 2 * place + 2], "big")] = True

    def are_in(self, stream: Iterable[bytes]) -> bool:
        """Whether a stream of bytes contains any of the texts."""
        carried = b""
        for chunk in stream:
            data = carried + chunk
            if self._any(_letters(data)):
                return True
            carried = data[-_CARRIED:]
        return False

    def _any(self, text: bytes) -> bool:
        if len(text) < FEWEST_LETTERS:
            return False
        letters = np.frombuffer(text, dtype=np.uint8)
        pairs = letters[:-1].astype(np.uint16) << 8 | letters[1:]
        places = len(text) - FEWEST_LETTERS + 1
        passed = np.ones(places, dtype=bool)
        for place, table in enumerate(self.tables):
            passed &= table[pairs[2 * place : 2 * place + places]]
        return any(
            text.startswith(self.keys.get(text[at : at + FEWEST_LETTERS], ()), at)
            for at in map(int, np.flatnonzero(passed))
        )


class _Looking:
    """One file with its packed contents, whose total size is limited."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.left = _MOST_UNPACKED

    def streams(self, file: IO[bytes], depth: int = 0) -> Iterator[Iterable[bytes]]:
        """The bytes of the file, then the bytes of each packed file in it."""
        yield iter(lambda: file.read(_CHUNK), b"")
        file.seek(0)
        head = file.read(512)
        file.seek(0)
        if head.startswith(b"PAR1"):
            yield _parquet(file)
        elif head[8:12] == b"DUCK":
            if depth:
                raise ValueError("a DuckDB database in an archive")
            yield from _database(self.path)
        else:
            for member in _members(file, head):
                if depth == _DEEPEST:
                    raise ValueError(f"packed more than {_DEEPEST} times")
                with TemporaryFile() as copy:
                    while chunk := member.read(_CHUNK):
                        self.left -= len(chunk)
                        if self.left < 0:
                            raise ValueError(f"unpacks to more than {_MOST_UNPACKED >> 30} GiB")
                        copy.write(chunk)
                    copy.seek(0)
                    yield from self.streams(copy, depth + 1)


def _members(file: IO[bytes], head: bytes) -> Iterator[IO[bytes]]:
    for magic, opener in _OPENERS.items():
        if head.startswith(magic):
            yield opener(file)
            return
    if head[257:262] == b"ustar":
        with tarfile.open(fileobj=file, mode="r:") as archive:
            for entry in archive:
                if (member := archive.extractfile(entry)) is not None:
                    yield member
    elif zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                with archive.open(info) as member:
                    yield member


def _parquet(file: IO[bytes]) -> Iterator[bytes]:
    """Rows of a Parquet file as text, from all columns with text."""
    table = pq.ParquetFile(file)
    names = [field.name for field in table.schema_arrow if _has_text(field.type)]
    if names:
        for batch in table.iter_batches(batch_size=4096, columns=names):
            yield _as_text(batch)


def _database(path: Path) -> Iterator[Iterator[bytes]]:
    """Rows of each table of a DuckDB database as text; no other file is read."""
    with duckdb.connect(str(path), True, {"enable_external_access": False}) as connection:
        tables = connection.execute(
            "select schema_name, table_name from duckdb_tables() where not internal"
        ).fetchall()
        for schema, table in tables:
            quoted = ".".join('"' + each.replace('"', '""') + '"' for each in (schema, table))
            reader = connection.sql(f"select * from {quoted}").to_arrow_reader(4096)
            yield map(_as_text, reader)


def _as_text(batch: pa.RecordBatch) -> bytes:
    columns = [
        column.to_pylist()
        for column, field in zip(batch.columns, batch.schema, strict=True)
        if _has_text(field.type)
    ]
    return "\n".join(str(value) for row in zip(*columns, strict=True) for value in row).encode(
        "utf-8", "surrogatepass"
    )


def _has_text(kind: pa.DataType) -> bool:
    words = str(kind)
    return any(name in words for name in ("string", "binary", "utf8", "json"))
