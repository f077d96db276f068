"""Downloads over HTTP, whole or not at all; locked files, from the problem file's addresses."""

from __future__ import annotations

import http.client
import json
import urllib.request
from pathlib import Path

import click

from warehouse.errors import LockedFileError, TokenmartError, first_line
from warehouse.files import write_whole
from warehouse.sources.folders import ProblemFolders

TIMEOUT_SECONDS = 30


class DownloadError(TokenmartError):
    """An address gave no usable file."""


def download_json(url: str, path: Path) -> None:
    """Download a JSON file to `path`; it appears there only when complete and parseable.

    Raises:
        DownloadError: no answer, an error status, cut short, or not JSON.
        StorageError: the file can't be written.
    """
    click.echo(f"downloading {url}", err=True)
    try:
        if not url.startswith(("https://", "http://")):
            raise ValueError("not an http(s) address")
        request = urllib.request.Request(url, headers={"User-Agent": "tokenmart"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            content = response.read()
        json.loads(content)
    # URLError and timeouts are OSErrors, text that isn't JSON is a ValueError
    except (OSError, http.client.HTTPException, ValueError) as error:
        what = f"{url}: {type(error).__name__}: {first_line(error)}"
        raise DownloadError(what, code="download", where=url) from error
    write_whole(path, content)


def ensure_locked_file(path: Path, url: str | None, folders: ProblemFolders, part: str) -> Path:
    """A file under its locked path, downloaded when it is missing.

    Args:
        path: relative to the checkout.
        url: the problem file's address of it.
        part: documents or target, as `data fetch --only` calls it: who fetches documents may not
            want the target yet.

    Raises:
        LockedFileError: missing, and not downloaded.
    """
    file = folders.resolve(path)
    if file.is_file():
        return file
    reason = "offline" if folders.offline else "no url in the problem file"
    if url and not folders.offline:
        try:
            download_json(url, file)
            return file
        except DownloadError as error:
            reason = error.format_message()
    raise LockedFileError(
        f"{path}: missing and not downloaded ({reason}); place the file at {file}, or run "
        f"`{folders.fetch_command} --only {part}` where there is a network",
        code="locked-file-missing",
        where=path,
    )
