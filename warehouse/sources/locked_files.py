"""Files under a locked path: placed by hand, or downloaded from the addresses on record."""

from __future__ import annotations

from pathlib import Path

import yaml

from warehouse.errors import LockedFileError, TokenmartError
from warehouse.paths import Workspace
from warehouse.sources.download import DownloadError, download_json
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
        raise LockedFileError(
            f"{path}: missing and not downloaded ({tried}); place the file at {file}, or run "
            f"`{place.fetch_command} --only {part}` where there is a network"
        )
    return file


def locked_urls(path: Path, url: str | None, place: Place) -> list[str]:
    """Addresses of a locked file: the problem file's own, then those of data/sources.yml.

    Raises:
        TokenmartError: sources.yml is not a mapping of problems to paths to addresses.
    """
    listed = _listed(place.workspace, place.problem, path)
    urls = [listed] if isinstance(listed, str) else listed if isinstance(listed, list) else []
    return [*([url] if url else []), *map(str, urls)]


def _listed(workspace: Workspace, problem: str, path: Path) -> object:
    sources = workspace.root / "data" / "sources.yml"
    if not sources.is_file():
        return None
    try:
        content = yaml.safe_load(sources.read_text(encoding="utf-8"))
        return ((content or {}).get(problem) or {}).get(path.as_posix())
    except (yaml.YAMLError, AttributeError, UnicodeDecodeError) as error:
        raise TokenmartError(
            f"{sources}: expected problem → path → list of addresses ({error})"
        ) from error
