"""A small model hub on this machine: what the real `huggingface_hub` client asks, answered.

Model information, tree listings and `resolve`, with the headers that the client reads: `ETag`,
`X-Repo-Commit`, `X-Linked-Size`, `X-Linked-Etag`, `X-Error-Code`. Large files answer `resolve`
with a redirect, as the hub's do, and every file can be read from any byte on.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit

LARGE_FILES = (".safetensors", ".bin", ".model")
_API = re.compile(
    r"/api/models/(?P<id>[^/]+/[^/]+?)(/(?P<what>revision|tree)/(?P<revision>[^/]+))?/?"
)
_RESOLVE = re.compile(r"/(?P<id>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
_LARGE = re.compile(r"/large-files/(?P<sha256>[0-9a-f]{64})")


@dataclass(frozen=True)
class StoredFile:
    """One file of a commit."""

    path: Path

    @property
    def size(self) -> int:
        """In bytes."""
        return self.path.stat().st_size

    @property
    def large(self) -> bool:
        """Whether the hub keeps it outside git."""
        return self.path.suffix in LARGE_FILES

    @cached_property
    def sha256(self) -> str:
        """Of its content: the ETag of a large file."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    @cached_property
    def blob_id(self) -> str:
        """Git's name of it: the ETag of a small file."""
        content = self.path.read_bytes()
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class Repository:
    """One repository: its commits stay, its branch `main` is the newest of them.

    `token` opens it where it is gated. `breaks_off`: after this number of bytes of a weight file
    the connection is cut, each time or `breaks_left` times.
    """

    commits: dict[str, dict[str, StoredFile]] = field(default_factory=dict)
    main: str = ""
    token: str | None = None
    breaks_off: int | None = None
    breaks_left: int | None = None

    def commit(self, folder: Path) -> str:
        """Make a folder's content the newest commit; returns the commit's hash."""
        files = {
            path.relative_to(folder).as_posix(): StoredFile(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        listing = "\n".join(f"{name} {file.sha256}" for name, file in files.items())
        self.main = hashlib.sha1(f"{self.main}\n{listing}".encode()).hexdigest()
        self.commits[self.main] = files
        return self.main

    def find(self, revision: str) -> str | None:
        """The commit that a branch or a hash names."""
        commit = self.main if revision == "main" else revision
        return commit if commit in self.commits else None


@dataclass(frozen=True)
class Asked:
    """One request and what it was answered."""

    method: str
    path: str
    status: int
    byte_range: str | None


class Hub:
    """Repositories behind HTTP on a free port of this machine, while the `with` block runs."""

    def __init__(self, repositories: dict[str, Repository]) -> None:
        self.repositories = repositories
        self.asked: list[Asked] = []
        hub = self

        class Handler(_Handler):
            pass

        Handler.hub = hub
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def endpoint(self) -> str:
        """What HF_ENDPOINT has to be."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def large_files(self) -> str:
        """Where large files lie: by name another host, to which no token is sent."""
        return f"http://localhost:{self._server.server_port}"

    @property
    def unexpected(self) -> list[Asked]:
        """What was asked of the hub that it doesn't know."""
        return [each for each in self.asked if each.status == 501]

    def downloads(self, full_id: str, suffix: str) -> list[Asked]:
        """The requests for the content of a repository's files that end so."""
        wanted = {
            f"/large-files/{file.sha256}"
            for files in self.repositories[full_id].commits.values()
            for name, file in files.items()
            if name.endswith(suffix)
        }
        return [each for each in self.asked if each.method == "GET" and each.path in wanted]

    def __enter__(self) -> Hub:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Answers one client."""

    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed: the hub keeps what it was asked."""

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if found := _LARGE.fullmatch(path):
            self._large_file(found["sha256"])
        elif found := _API.fullmatch(path):
            self._information(found["id"], found["what"], found["revision"] or "main")
        elif found := _RESOLVE.fullmatch(path):
            self._resolve(found["id"], found["revision"], found["path"])
        else:
            self._send(501, b"not a request this hub knows")

    def _information(self, full_id: str, what: str | None, revision: str) -> None:
        repository, commit = self._commit(full_id, revision)
        if repository is None or commit is None:
            return
        files = repository.commits[commit]
        # information and listing of a gated repository are public, its files are not
        if what == "tree":
            self._json([_entry(name, file) for name, file in files.items()])
        else:
            self._json(
                {
                    "_id": commit[:24],
                    "id": full_id,
                    "modelId": full_id,
                    "sha": commit,
                    "private": False,
                    "gated": "auto" if repository.token else False,
                    "tags": [],
                    "siblings": [{"rfilename": name} for name in files],
                }
            )

    def _resolve(self, full_id: str, revision: str, name: str) -> None:
        repository, commit = self._commit(full_id, revision)
        if repository is None or commit is None:
            return
        headers = {"X-Repo-Commit": commit}
        given = self.headers.get("Authorization")
        if repository.token and given != f"Bearer {repository.token}":
            message = f"Access to model {full_id} is restricted."
            refused = {"X-Error-Code": "GatedRepo", "X-Error-Message": message}
            self._send(403 if given else 401, message.encode(), headers | refused)
            return
        file = repository.commits[commit].get(name)
        if file is None:
            missing = {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"}
            self._send(404, b"Entry not found", headers | missing)
        elif file.large:
            linked = {
                "X-Linked-Size": str(file.size),
                "X-Linked-Etag": f'"{file.sha256}"',
                "Location": f"{self.hub.large_files}/large-files/{file.sha256}",
            }
            self._send(302, b"", headers | linked)
        else:
            self._content(file, headers | {"ETag": f'"{file.blob_id}"'})

    def _large_file(self, sha256: str) -> None:
        for repository in self.hub.repositories.values():
            for files in repository.commits.values():
                for file in files.values():
                    if file.large and file.sha256 == sha256:
                        self._content(file, {"ETag": f'"{sha256}"'}, repository)
                        return
        self._send(404, b"no such file")

    def _content(
        self, file: StoredFile, headers: dict[str, str], repository: Repository | None = None
    ) -> None:
        content, status = file.path.read_bytes(), 200
        size = len(content)
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked:
            first, last = int(asked[1]), int(asked[2] or size - 1)
            content, status = content[first : last + 1], 206
            headers = headers | {"Content-Range": f"bytes {first}-{last}/{size}"}
        at = repository.breaks_off if repository else None
        if repository is None or at is None or len(content) <= at or self.command == "HEAD":
            self._send(status, content, headers | {"Accept-Ranges": "bytes"})
            return
        if repository.breaks_left is not None:
            repository.breaks_left -= 1
            if not repository.breaks_left:
                repository.breaks_off = None
        self._send(status, content, headers, sent=at)
        self.close_connection = True

    def _commit(self, full_id: str, revision: str) -> tuple[Repository | None, str | None]:
        repository = self.hub.repositories.get(full_id)
        commit = repository.find(revision) if repository else None
        if commit is None:
            code = "RevisionNotFound" if repository else "RepoNotFound"
            self._send(404, code.encode(), {"X-Error-Code": code, "X-Error-Message": code})
        return repository, commit

    def _json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(
        self,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
        sent: int | None = None,
    ) -> None:
        """Answer; with `sent` the connection sends only this number of the announced bytes."""
        path = urlsplit(self.path).path
        self.hub.asked.append(Asked(self.command, path, status, self.headers.get("Range")))
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if sent is None else body[:sent])


def _entry(name: str, file: StoredFile) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": "file",
        "oid": file.blob_id,
        "size": file.size,
        "path": name,
    }
    if file.large:
        entry["lfs"] = {"oid": file.sha256, "size": file.size, "pointerSize": 134}
    return entry
