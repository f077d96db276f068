"""A small model hub on this machine: what the real `huggingface_hub` client asks, answered.

Model information, tree listings and `resolve`, with the headers that the client reads. Large files
answer `resolve` with a redirect, as the hub's do, and every file can be read from any byte on.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

LARGE_FILES = (".safetensors", ".bin", ".model")
"""Kept outside git: their ETag is the sha256, that of others git's name of the content."""
_API = re.compile(
    r"/api/models/(?P<id>[^/]+/[^/]+?)(/(?P<what>revision|tree)/(?P<revision>[^/]+))?/?"
)
_RESOLVE = re.compile(r"/(?P<id>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
_LARGE = re.compile(r"/large-files/(?P<sha256>[0-9a-f]{64})")


@cache
def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def _blob_id(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class Repository:
    """One repository: its commits stay, its branch `main` is the newest of them.

    `token` opens it where it is gated. `breaks_off`: once, after this number of bytes of a weight
    file, the connection is cut.
    """

    token: str | None = None
    breaks_off: int | None = None
    commits: dict[str, dict[str, Path]] = field(default_factory=dict)
    main: str = ""

    def commit(self, folder: Path) -> str:
        """Make a folder's content the newest commit; returns the commit's hash."""
        files = {
            path.relative_to(folder).as_posix(): path
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        listing = "\n".join(f"{name} {_sha256(path)}" for name, path in files.items())
        self.main = hashlib.sha1(f"{self.main}\n{listing}".encode()).hexdigest()
        self.commits[self.main] = files
        return self.main


class Asked(NamedTuple):
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
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True

    @property
    def endpoint(self) -> str:
        """What HF_ENDPOINT has to be."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def large_files(self) -> str:
        """Where large files are: by name another host, to which no token is sent."""
        return f"http://localhost:{self._server.server_port}/large-files"

    def downloads(self, full_id: str, suffix: str) -> list[Asked]:
        """The requests for the content of a repository's files that end so."""
        commits = self.repositories[full_id].commits.values()
        wanted = {
            f"/large-files/{_sha256(path)}"
            for files in commits
            for path in files.values()
            if path.suffix == suffix
        }
        return [each for each in self.asked if each.method == "GET" and each.path in wanted]

    def __enter__(self) -> Hub:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Answers one client."""

    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if found := _LARGE.fullmatch(path):
            self._large_file(found["sha256"])
        elif found := _API.fullmatch(path):
            self._information(found["id"], found["what"], found["revision"] or "main")
        elif found := _RESOLVE.fullmatch(path):
            self._resolve(found["id"], found["revision"], found["path"])
        else:
            self._send(501, b"not a request this hub knows")

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed: the hub keeps what it was asked."""

    def _information(self, full_id: str, what: str | None, revision: str) -> None:
        """Public also of a gated repository, whose files are not."""
        repository, commit = self._commit(full_id, revision)
        files = repository.commits.get(commit, {})
        if what == "tree":
            self._json([_entry(name, path) for name, path in files.items()])
        elif files:
            described = {"_id": commit[:24], "id": full_id, "modelId": full_id, "sha": commit}
            described |= {"private": False, "gated": "auto" if repository.token else False}
            self._json({**described, "tags": [], "siblings": [{"rfilename": n} for n in files]})

    def _resolve(self, full_id: str, revision: str, name: str) -> None:
        repository, commit = self._commit(full_id, revision)
        headers = {"X-Repo-Commit": commit}
        given = self.headers.get("Authorization")
        path = repository.commits[commit].get(name)
        if repository.token and given != f"Bearer {repository.token}":
            refused = {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted."}
            self._send(403 if given else 401, b"restricted", headers | refused)
        elif path is None:
            self._send(404, b"", headers | {"X-Error-Code": "EntryNotFound"})
        elif path.suffix in LARGE_FILES:
            sha256 = _sha256(path)
            headers |= {"X-Linked-Size": str(path.stat().st_size), "X-Linked-Etag": f'"{sha256}"'}
            self._send(302, b"", headers | {"Location": f"{self.hub.large_files}/{sha256}"})
        else:
            self._content(path, headers | {"ETag": f'"{_blob_id(path)}"'})

    def _large_file(self, sha256: str) -> None:
        repository, path = next(
            (repository, path)
            for repository in self.hub.repositories.values()
            for files in repository.commits.values()
            for path in files.values()
            if path.suffix in LARGE_FILES and _sha256(path) == sha256
        )
        self._content(path, {"ETag": f'"{sha256}"'}, repository)

    def _content(
        self, path: Path, headers: dict[str, str], repository: Repository | None = None
    ) -> None:
        content, status = path.read_bytes(), 200
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked:
            size = len(content)
            first, last = int(asked[1]), int(asked[2] or size - 1)
            content, status = content[first : last + 1], 206
            headers |= {"Content-Range": f"bytes {first}-{last}/{size}"}
        at = repository.breaks_off if repository and self.command == "GET" else None
        if repository and at is not None and len(content) > at:
            repository.breaks_off, self.close_connection = None, True
        else:
            at = None
        self._send(status, content, headers | {"Accept-Ranges": "bytes"}, sent=at)

    def _commit(self, full_id: str, revision: str) -> tuple[Repository, str]:
        """The repository and the commit that a branch or a hash names."""
        repository = self.hub.repositories[full_id]
        return repository, repository.main if revision == "main" else revision

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


def _entry(name: str, path: Path) -> dict[str, Any]:
    """A file in a tree listing."""
    size = path.stat().st_size
    entry: dict[str, Any] = {"type": "file", "oid": _blob_id(path), "size": size, "path": name}
    if path.suffix in LARGE_FILES:
        entry["lfs"] = {"oid": _sha256(path), "size": size, "pointerSize": 134}
    return entry
