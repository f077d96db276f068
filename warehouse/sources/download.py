"""Downloads over HTTP, whole or not at all; locked files, from the addresses on record."""

from __future__ import annotations

import http.client
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

import yaml
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from warehouse.errors import LockedFileError, TokenmartError
from warehouse.files import appearing
from warehouse.paths import Workspace
from warehouse.sources.lock_file import name_in
from warehouse.sources.place import Place

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
        except (ValueError, RecursionError) as error:
            raise DownloadError(f"{url}: what came is not JSON ({error})") from error


def _receive(url: str, path: Path, largest_bytes: int) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "tokenmart"})
    # rich takes a file for a terminal where the shell has FORCE_COLOR
    console = Console(stderr=True, force_terminal=sys.stderr.isatty())
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with (
        urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response,
        Progress(*columns, TransferSpeedColumn(), console=console) as progress,
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


def ensure_locked_file(path: Path, url: str | None, place: Place, part: str) -> Path:
    """A file under its locked path, downloaded when it is missing.

    Args:
        path: relative to the checkout.
        url: the problem file's own address, tried before those of data/sources.yml.
        part: documents or target, as `data fetch --only` calls it: who fetches documents may not
            want the target yet.

    Raises:
        LockedFileError: missing, and no address gave it.
    """
    file = place.resolve(path)
    if file.is_file():
        return file
    urls = locked_urls(path, url, place)
    failures = ["offline"] if place.offline else []
    with place.one_at_a_time(path.name):
        for address in [] if place.offline or file.is_file() else urls:
            try:
                download_json(address, file)
                break
            except DownloadError as error:
                failures.append(error.format_message())
    if not file.is_file():
        tried = "; ".join(failures) or "no address in data/sources.yml"
        otherwise = (
            f"run `{place.fetch_command} --only {part}` where there is a network"
            if urls
            else "give its address there, or as `url` in the problem file"
        )
        raise LockedFileError(
            f"{path}: missing and not downloaded ({tried}); place the file at {file}, or "
            f"{otherwise}"
        )
    return file


def locked_urls(path: Path, url: str | None, place: Place) -> list[str]:
    """Addresses of a locked file: the problem file's own, then those of data/sources.yml.

    Raises:
        TokenmartError: sources.yml is not a mapping of problems to paths to addresses.
    """
    listed = _listed(place.workspace, path)
    urls = [listed] if isinstance(listed, str) else listed if isinstance(listed, list) else []
    return [*([url] if url else []), *map(str, urls)]


def _listed(workspace: Workspace, path: Path) -> object:
    """The locked file of this path, for any problem: a copy of a problem reads the same file."""
    sources = workspace.root / "data" / "sources.yml"
    if not sources.is_file():
        return None
    name = name_in(workspace, path)
    try:
        content = yaml.safe_load(sources.read_text(encoding="utf-8"))
        paths = [listed or {} for listed in (content or {}).values()]
        return next((listed[name] for listed in paths if listed.get(name)), None)
    except (yaml.YAMLError, AttributeError, UnicodeDecodeError) as error:
        raise TokenmartError(
            f"{sources}: expected problem → path → list of addresses ({error})"
        ) from error
