"""Files under a locked path: placed by hand, or downloaded from the addresses on record."""

from __future__ import annotations

from pathlib import Path

import yaml

from warehouse.errors import LockedFileError, TokenmartError
from warehouse.paths import Workspace
from warehouse.sources.download import DownloadError, download_json
from warehouse.sources.lock_file import name_in
from warehouse.sources.place import Place


def ensure_locked_file(path: Path, url: str | None, place: Place, part: str) -> Path:
    """A file under its locked path, downloaded when it is missing.

    Args:
        path: relative to the checkout.
        url: the problem file's own address, tried before those of data/sources.yml.
        place: the checkout and the problem.
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
