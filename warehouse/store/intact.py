"""Whether a Parquet file's data are the bytes that were written: their hash is in its footer.

Parquet's readers check nothing: a flipped bit is another number. Ledger and rows have hashes of
their own, but those of the rows need every row decoded; this one reads the file once, at the speed
of the disk.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.bucket import BucketPath, footer

DATA_KEY = b"tokenmart.data"
"""Footer key: number and sha256 of the bytes before the footer."""

_CHUNK_BYTES = 1 << 20
_AT_ONCE = 8


def data_record(path: Path, size: int) -> dict[bytes, bytes]:
    """Footer metadata for a file of which `size` bytes have been written.

    Raises:
        OSError: it can't be read.
    """
    record = {"bytes": size, "sha256": sha256_of_beginning(path, size)}
    return {DATA_KEY: json.dumps(record).encode()}


def altered_files(paths: Iterable[Path]) -> list[Path]:
    """Those whose data differ from the hash in their footer, sorted.

    Files without one, of earlier versions, and files that can't be read are left out.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        files = sorted(paths)
        same = list(pool.map(_is_same, files))
    return [path for path, is_same in zip(files, same, strict=True) if not is_same]


def _is_same(path: Path) -> bool:
    try:
        record = json.loads((pq.read_metadata(footer(path)).metadata or {})[DATA_KEY])
        return bool(sha256_of_beginning(path, int(record["bytes"])) == record["sha256"])
    except (KeyError, OSError, TypeError, ValueError, pa.ArrowException):
        return True


def sha256_of_beginning(path: Path, size: int) -> str:
    """sha256 of the first `size` bytes of a file or object, as hex digits.

    Raises:
        OSError, StorageError: it can't be read.
    """
    digest = hashlib.sha256()
    if isinstance(path, BucketPath):
        for chunk in path.chunks(size):
            digest.update(chunk)
        return digest.hexdigest()
    with path.open("rb") as file:
        while size > 0 and (chunk := file.read(min(size, _CHUNK_BYTES))):
            digest.update(chunk)
            size -= len(chunk)
    return digest.hexdigest()
