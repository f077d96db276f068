"""A folder of an object store (`s3://bucket/prefix`), with the methods of pathlib that the store
uses.

It uses s3fs. Instead of renames and locks, single requests protect concurrent writes: an object
becomes visible when its upload is complete, and a conditional `put` succeeds for only one of
several writers.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple, cast

from plugins.cluster.leases import lease
from plugins.cluster.object_store import SCHEME, explained, filesystem
from plugins.cluster.spool import send_spooled, uploading
from warehouse.errors import TokenmartError
from warehouse.remote import RemotePath

_PART_BYTES = 256 << 20
_TAIL_BYTES = 64 << 10
_CHUNK_BYTES = 8 << 20


class Marks(NamedTuple):
    """A store's record of an object: bytes, seconds since 1970, version."""

    st_size: int
    st_mtime: float
    etag: str

    @property
    def st_mtime_ns(self) -> int:
        """The same time in nanoseconds."""
        return int(self.st_mtime * 1e9)


class BucketPath(RemotePath):
    """A bucket, or a prefix or object in a bucket."""

    kind = "s3"
    known: Marks | None = None

    @classmethod
    def at(cls, address: str) -> BucketPath:
        """The path of `s3://bucket/prefix`.

        Raises:
            TokenmartError: the address is not of this form.
        """
        if not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/]+)*/?", address):
            raise TokenmartError(f"{address}: no address of a bucket; write s3://bucket/prefix")
        if {".", ".."} & set(address.split("/")):
            raise TokenmartError(f"{address}: . and .. mean nothing in a bucket; leave them out")
        return cls(address)

    def filesystem(self) -> Any:
        """This process's s3fs.

        Raises:
            TokenmartError: s3fs isn't installed.
        """
        return filesystem()

    def __str__(self) -> str:
        if self.parts[:1] == ("s3:",):
            return SCHEME + "/".join(self.parts[1:])
        return "/".join(self.parts) or "."

    def __fspath__(self) -> str:
        raise TypeError(f"{self}: an object store has no path of the file system")

    def __repr__(self) -> str:
        return f"BucketPath({str(self)!r})"

    @property
    def bucket(self) -> str:
        """The bucket's name."""
        return self.parts[1]

    @property
    def key(self) -> str:
        """The object's key."""
        return "/".join(self.parts[2:])

    def stat(self) -> Marks:
        """Size, time and version.

        Raises:
            FileNotFoundError: no such object.
            StorageError: the store can't be reached.
        """
        if self.known is not None:
            return self.known
        found = self._call("head_object", Key=self.key)
        return Marks(found["ContentLength"], found["LastModified"].timestamp(), found["ETag"])

    def is_file(self) -> bool:
        """Whether there is such an object."""
        try:
            self.stat()
            return True
        except FileNotFoundError:
            return False

    def is_dir(self) -> bool:
        """Whether there are objects below."""
        return next(self._below(f"{self.key}/", 1), None) is not None

    def exists(self) -> bool:
        """Whether there is such an object, or one below."""
        return self.is_file() or self.is_dir()

    def mkdir(self, *_: object, **__: object) -> None:
        """Do nothing: object stores have no folders."""

    def glob(self, pattern: str) -> Iterator[BucketPath]:
        """Objects and folders that match, sorted; `**` matches any number of folders."""
        fixed = re.match(r"[^*?\[]*", pattern)
        top = f"{self.key}/" if self.key else ""
        wanted = re.compile(_regex(pattern))
        length = None if "**" in pattern else pattern.count("/") + 1
        last = ""
        for key, marks in self._below(top + (fixed[0] if fixed else "")):
            parts = key[len(top) :].split("/")
            name = "/".join(parts[:length])
            if name == last or not wanted.fullmatch(name):
                continue
            last = name
            path = self / name
            if length is None or len(parts) == length:
                path.known = marks
            yield path

    def rglob(self, pattern: str) -> Iterator[BucketPath]:
        """`glob` in this folder and all below."""
        return self.glob(f"**/{pattern}")

    def read_bytes(self) -> bytes:
        """The complete object, of one version.

        Raises:
            FileNotFoundError: no such object.
            StorageError: the store can't be reached.
        """
        return self._get()[0]

    def open(self, mode: str = "rb") -> io.BytesIO:
        """The complete object, in one read."""
        if mode != "rb":
            raise ValueError(f"{self}: opened with {mode!r}; objects are written by `put`")
        return io.BytesIO(self.read_bytes())

    def chunks(self, size: int) -> Iterator[bytes]:
        """The first `size` bytes, piece by piece, of one version.

        Raises:
            FileNotFoundError, StorageError: see `read_bytes`.
        """
        options: dict[str, str] = {}
        for start in range(0, size, _CHUNK_BYTES):
            stop = min(size, start + _CHUNK_BYTES) - 1
            body, found = self._get(Range=f"bytes={start}-{stop}", **options)
            options = {"IfMatch": found["ETag"]}
            yield body

    def look(self) -> tuple[str, str, float]:
        """A small object's text, its version, and its age in seconds by the store's own clock.

        Raises:
            FileNotFoundError, StorageError: see `read_bytes`.
        """
        from email.utils import parsedate_to_datetime

        body, found = self._get()
        headers = found["ResponseMetadata"]["HTTPHeaders"]
        now = parsedate_to_datetime(headers["date"]) if "date" in headers else _now()
        age = (now - found["LastModified"]).total_seconds()
        return body.decode("utf-8", "replace"), found["ETag"], age

    def put(self, content: bytes | Path, expected: str | None = None) -> str:
        """Write the complete object; returns its version.

        Args:
            content: bytes, or a file on this machine.
            expected: write only if the object still has this version; if empty, only if there is no
                object.

        Raises:
            ChangedError: the object has another version.
            StorageError: the store can't be reached.
        """
        condition = {}
        if expected is not None:
            condition = {"IfMatch": expected} if expected else {"IfNoneMatch": "*"}
        if isinstance(content, Path) and content.stat().st_size > _PART_BYTES:
            return self._put_parts(content, condition)
        body = content.read_bytes() if isinstance(content, Path) else content
        return str(self._call("put_object", Key=self.key, Body=body, **condition)["ETag"])

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object."""
        if not missing_ok:
            self.stat()
        self._call("delete_object", Key=self.key)

    def lease(self) -> AbstractContextManager[bool]:
        """Try to claim the object; gives whether it is ours. It is kept alive inside the block."""
        return lease(self)

    def uploading(self, store: Path, spool: Path) -> AbstractContextManager[Path]:
        """A file in the folder `spool` that is uploaded when the block succeeds."""
        return uploading(self, store, spool)

    def send_spooled(self, spool: Path) -> int:
        """Send what an earlier run could not; returns the number of files."""
        return send_spooled(self, spool)

    def rename(self, target: BucketPath) -> BucketPath:
        """Copy, then remove; both objects exist for a moment."""
        self._call(
            "copy_object", Key=target.key, CopySource={"Bucket": self.bucket, "Key": self.key}
        )
        self.unlink(missing_ok=True)
        return target

    def tail(self) -> io.RawIOBase:
        """Open the object to read its end; one request, unless more is read."""
        return _Tail(self)

    def _put_parts(self, file: Path, condition: dict[str, Any]) -> str:
        """Upload in parts; the object is visible only when it is complete."""
        upload = self._call("create_multipart_upload", Key=self.key)["UploadId"]
        parts: list[dict[str, Any]] = []
        try:
            with file.open("rb") as content:
                while body := content.read(_PART_BYTES):
                    number = len(parts) + 1
                    done = self._call(
                        "upload_part", Key=self.key, UploadId=upload, PartNumber=number, Body=body
                    )
                    parts.append({"PartNumber": number, "ETag": done["ETag"]})
            done = self._call(
                "complete_multipart_upload",
                Key=self.key,
                UploadId=upload,
                MultipartUpload={"Parts": parts},
                **condition,
            )
        except BaseException:
            # if the store can't be reached, a lifecycle rule of the bucket removes the parts
            with suppress(FileNotFoundError, TokenmartError):
                self._call("abort_multipart_upload", Key=self.key, UploadId=upload)
            raise
        return str(done["ETag"])

    def _get(self, **options: str) -> tuple[bytes, dict[str, Any]]:
        import fsspec.asyn

        store = filesystem()

        async def whole() -> tuple[bytes, dict[str, Any]]:
            found = await store._call_s3("get_object", Bucket=self.bucket, Key=self.key, **options)
            return await found["Body"].read(), found

        return cast(
            "tuple[bytes, dict[str, Any]]", self._explained(fsspec.asyn.sync, store.loop, whole)
        )

    def _below(self, prefix: str, most: int | None = None) -> Iterator[tuple[str, Marks]]:
        """Keys with a prefix, sorted."""
        options: dict[str, Any] = {"MaxKeys": most} if most else {}
        while True:
            page = self._call("list_objects_v2", Prefix=prefix, **options)
            for each in page.get("Contents", ()):
                time = each["LastModified"].timestamp()
                yield each["Key"], Marks(each["Size"], time, each["ETag"])
            if most or not page.get("IsTruncated"):
                return
            options["ContinuationToken"] = page["NextContinuationToken"]

    def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        call = filesystem().call_s3
        return cast(
            "dict[str, Any]", self._explained(call, method, Bucket=self.bucket, **arguments)
        )

    def _explained(self, call: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return call(*arguments, **options)
        except Exception as error:
            raise explained(str(self), self.bucket, error) from error


class _Tail(io.RawIOBase):
    def __init__(self, path: BucketPath) -> None:
        self._path = path
        self._body, found = path._get(Range=f"bytes=-{_TAIL_BYTES}")
        self._etag = found["ETag"]
        size = found.get("ContentRange", "").rpartition("/")[2]
        self._size = int(size) if size.isdigit() else len(self._body)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        stop = self._size if size < 0 else min(self._size, self._at + size)
        begin = self._size - len(self._body)
        if self._at < begin:
            # more of the same version
            self._body = self._path._get(Range=f"bytes={self._at}-", IfMatch=self._etag)[0]
            begin = self._at
        found = self._body[self._at - begin : max(0, stop - begin)]
        self._at += len(found)
        return found


def _regex(pattern: str) -> str:
    """A pattern of pathlib's as a regular expression over names with slashes."""
    parts = re.split(r"(\*\*/|\*|\?)", pattern)
    kinds = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    return "".join(kinds.get(part) or re.escape(part) for part in parts)


def _now() -> datetime:
    return datetime.now(timezone.utc)
