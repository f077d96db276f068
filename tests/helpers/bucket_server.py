"""A real S3-compatible server on this machine, and a wire to it that can be cut."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from plugins.cluster.stores.s3 import BucketPath
from warehouse.remote import remote_path

BUCKET = "lab"


class Wire:
    """Passes bytes on to a server until `cut_after` more of them were sent to it; then it closes
    every connection, and refuses new ones until it is repaired."""

    def __init__(self, port: int) -> None:
        self.server = port
        self.left: int | None = None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut_after(self, sent: int) -> None:
        self.left = sent

    def mend(self) -> None:
        self.left = None

    def _accept(self) -> None:
        while True:
            with suppress(OSError):
                near, _ = self.listener.accept()
                if self.left is not None and self.left <= 0:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self.server))
                for pair in ((near, far, True), (far, near, False)):
                    threading.Thread(target=self._pass, args=pair, daemon=True).start()
                continue
            if self.listener.fileno() < 0:
                return

    def _pass(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with suppress(OSError), source, target:
            while data := source.recv(1 << 14):
                if counted and self.left is not None:
                    self.left -= len(data)
                    if self.left <= 0:
                        for end in (source, target):
                            end.shutdown(socket.SHUT_RDWR)
                        return
                target.sendall(data)
            with suppress(OSError):
                target.shutdown(socket.SHUT_WR)


class Server:
    """`moto_server` in a process of its own."""

    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def check_keys_after(self, actions: int | None) -> None:
        """Accept every key for this number of requests, then only those of IAM; None: always."""
        body = b"inf" if actions is None else str(actions).encode()
        request = urllib.request.Request(
            f"{self.address}/moto-api/reset-auth", body, {"Content-Type": "text/plain"}
        )
        urllib.request.urlopen(request).read()

    def iam(self, **fields: str) -> str:
        body = "&".join(f"{k}={v}" for k, v in {**fields, "Version": "2010-05-08"}.items())
        credential = "Credential=a/20260101/us-east-1/iam/aws4_request"
        request = urllib.request.Request(
            self.address,
            body.encode(),
            {"Authorization": f"AWS4-HMAC-SHA256 {credential}, SignedHeaders=host, Signature=b"},
        )
        return str(urllib.request.urlopen(request).read().decode())


@contextmanager
def running() -> Iterator[Server]:
    """Start the server; it ends with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        env={**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "inf"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while True:
            with suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/data.json").read()
                break
            assert process.poll() is None and time.monotonic() < deadline, "no server"
            time.sleep(0.1)
        yield Server(port)
    finally:
        process.terminate()
        process.wait()


def point_at(patch: pytest.MonkeyPatch, endpoint: str, key: tuple[str, str] = ("a", "b")) -> None:
    """Have this process and those it starts use this server, with this key."""
    from plugins.cluster import object_store

    patch.setenv("AWS_ENDPOINT_URL", endpoint)
    patch.setenv("AWS_ACCESS_KEY_ID", key[0])
    patch.setenv("AWS_SECRET_ACCESS_KEY", key[1])
    patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    object_store._filesystem.cache_clear()


def make_bucket(name: str = BUCKET) -> None:
    from plugins.cluster.object_store import filesystem

    filesystem().call_s3("create_bucket", Bucket=name)


def upload(folder: Path, address: str) -> BucketPath:
    """Put a folder's files under an address."""
    top = remote_path(address)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            (top / path.relative_to(folder).as_posix()).put(path)  # type: ignore[attr-defined]
    return top  # type: ignore[return-value]


def new_user(server: Server, name: str) -> tuple[str, str]:
    """A key that may do everything in S3."""
    allowed = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    server.iam(Action="CreateUser", UserName=name)
    server.iam(
        Action="PutUserPolicy", UserName=name, PolicyName="all",
        PolicyDocument=urllib.parse.quote(policy),
    )  # fmt: skip
    answer = server.iam(Action="CreateAccessKey", UserName=name)
    parts = [
        answer.split(f"<{tag}>")[1].split("<")[0] for tag in ("AccessKeyId", "SecretAccessKey")
    ]
    return parts[0], parts[1]
