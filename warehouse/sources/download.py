"""Downloads over HTTP, whole or not at all; locked files, from the addresses on record."""

from __future__ import annotations

import http.client
import json
import urllib.request
from pathlib import Path

import click
import yaml

from warehouse.errors import LockedFileError, TokenmartError, first_line
from warehouse.files import write_whole
from warehouse.sources.folders import ProblemFolders
from warehouse.sources.lock_file import name_in

TIMEOUT_SECONDS = 30
LARGEST_BYTES = 1 << 30


class DownloadError(TokenmartError):
    """An address gave no usable file; the next one may."""


def download_json(url: str, path: Path, largest_bytes: int = LARGEST_BYTES) -> None:
    """Download a JSON file to `path`; it appears there only when complete and parseable.

    Raises:
        DownloadError: no answer, an error status, too large, cut short, or not JSON.
        StorageError: the file can't be written.
    """
    click.echo(f"downloading {url}", err=True)
    request = urllib.request.Request(url, headers={"User-Agent": "tokenmart"})
    try:
        if not url.startswith(("https://", "http://")):
            raise ValueError("not an http(s) address")
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            content = response.read(largest_bytes + 1)
        announced = int(response.headers.get("Content-Length") or len(content))
        if max(len(content), announced) > largest_bytes:
            raise ValueError(f"larger than {largest_bytes:,} bytes")
        if len(content) != announced:
            raise ValueError(f"cut short at {len(content):,} of {announced:,} bytes")
        json.loads(content)
    # URLError and timeouts are OSErrors, text that isn't JSON is a ValueError
    except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
        reason = "not JSON, " if isinstance(error, json.JSONDecodeError) else ""
        what = f"{url}: {reason}{first_line(error)}"
        raise DownloadError(what, code="download", where=url) from error
    write_whole(path, content)


def ensure_locked_file(path: Path, url: str | None, folders: ProblemFolders, part: str) -> Path:
    """A file under its locked path, downloaded when it is missing.

    Args:
        path: relative to the checkout.
        url: the problem file's own address, tried before those of data/sources.yml.
        part: documents or target, as `data fetch --only` calls it: who fetches documents may not
            want the target yet.

    Raises:
        LockedFileError: missing, and no address gave it.
    """
    file = folders.resolve(path)
    if file.is_file():
        return file
    urls = locked_urls(path, url, folders)
    failures = ["offline"] if folders.offline else []
    with folders.one_at_a_time(path.name):
        for address in [] if folders.offline or file.is_file() else urls:
            try:
                download_json(address, file)
                break
            except DownloadError as error:
                failures.append(error.format_message())
    if not file.is_file():
        reason = "; ".join(failures) or "no address in data/sources.yml or the problem file"
        raise LockedFileError(
            f"{path}: missing and not downloaded ({reason}); place the file at {file}, or run "
            f"`{folders.fetch_command} --only {part}` where there is a network",
            code="locked-file-missing",
            where=path,
        )
    return file


def locked_urls(path: Path, url: str | None, folders: ProblemFolders) -> list[str]:
    """Addresses of a locked file: the problem file's own, then those of data/sources.yml.

    They belong to the path, for any problem: a copy of a problem reads the same file.

    Raises:
        TokenmartError: sources.yml is not a mapping of problems to paths to addresses.
    """
    sources = folders.workspace.root / "data" / "sources.yml"
    name = name_in(folders.workspace, path)
    found = [url] if url else []
    try:
        content = yaml.safe_load(sources.read_bytes()) if sources.is_file() else {}
        for paths in content.values():
            found += [address for address in (paths or {}).get(name, ()) if address not in found]
    except (yaml.YAMLError, AttributeError, TypeError, UnicodeDecodeError) as error:
        raise TokenmartError(
            f"{sources}: expected problem → path → list of addresses ({first_line(error)})",
            code="bad-sources",
            where=sources,
        ) from error
    return found
