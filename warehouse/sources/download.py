"""Downloads over HTTP into their final place, whole or not at all."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from warehouse.errors import TokenmartError
from warehouse.files import appearing

TIMEOUT_SECONDS = 30
LARGEST_BYTES = 1 << 30
_CHUNK_BYTES = 1 << 16


class DownloadError(TokenmartError):
    """An address gave no usable file; the next one may."""


def download_json(url: str, path: Path, largest_bytes: int = LARGEST_BYTES) -> None:
    """Download a JSON file to `path`; it appears there only when complete and parseable.

    Raises:
        DownloadError: no answer, an error status, too large, cut short, or not JSON.
        StorageError: the file can't be written.
    """
    if not url.startswith(("https://", "http://")):
        raise DownloadError(f"{url}: not an http(s) address")
    with appearing(path) as draft:
        try:
            _receive(url, draft, largest_bytes)
            json.loads(draft.read_bytes())
        except urllib.error.HTTPError as error:
            raise DownloadError(f"{url}: HTTP {error.code} {error.reason}") from error
        except (
            urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError,
        ) as error:  # fmt: skip
            reason = getattr(error, "reason", None) or error
            raise DownloadError(f"{url}: no answer ({reason})") from error
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise DownloadError(f"{url}: what came is not JSON ({error})") from error


def _receive(url: str, path: Path, largest_bytes: int) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "tokenmart"})
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with (
        urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response,
        Progress(*columns, TransferSpeedColumn(), console=Console(stderr=True)) as progress,
        path.open("wb") as file,
    ):
        announced = int(response.headers.get("Content-Length") or 0)
        task = progress.add_task(url.rsplit("/", 1)[-1], total=announced or None)
        received = 0
        while chunk := response.read(_CHUNK_BYTES):
            received += len(chunk)
            if max(received, announced) > largest_bytes:
                raise DownloadError(f"{url}: larger than {largest_bytes:,} bytes; not stored")
            file.write(chunk)
            progress.update(task, completed=received)
        if announced and received != announced:
            raise DownloadError(f"{url}: cut short at {received:,} of {announced:,} bytes")
