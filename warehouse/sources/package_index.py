"""Pinned archives, by the index's own pages of links: pip would run code of the package.

`pip download` of a source distribution runs its `setup.py` or build backend for the metadata. Here
its bytes are fetched and nothing else happens. Where packages are is what pip's configuration says.
"""

from __future__ import annotations

import ast
import base64
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit
from urllib.request import Request, url2pathname, urlopen

from warehouse.child_process import inherited, python_module
from warehouse.errors import TokenmartError, first_line
from warehouse.files import replacing, sha256_file

_TIMEOUT_SECONDS = 60
Settings = dict[str, list[str]]
"""Option of pip → the words of its values."""


def fetch_archive(package: str, path: Path, sha256: str) -> None:
    """Write a wheel or source distribution to `path`, whose name is the file's on the index.

    Args:
        package: `name==version`.
        sha256: a file with another one is left where it is.

    Raises:
        TokenmartError: none was found, or none with this hash (`not-downloaded`).
        StorageError: the file can't be written.
    """
    settings = _pip_settings()
    reason = "no index or folder of pip's configuration has it"
    try:
        for link in _links(settings, package.partition("==")[0], path.name):
            with replacing(path) as draft:
                with draft.open("wb") as out, _opened(link, settings) as content:
                    shutil.copyfileobj(content, out)
                fetched = sha256_file(draft)
                if fetched == sha256:
                    return
                raise ValueError(f"{link}: sha256 is {fetched}, expected {sha256}")
    except (ValueError, OSError, HTTPException) as error:
        reason = first_line(error, 300)
    raise TokenmartError(
        f"{package}: {path.name} can't be downloaded ({reason}); check the network, or place the "
        f"file in {path.parent}",
        code="not-downloaded",
        where=package,
    )


def _pip_settings() -> Settings:
    """pip's configuration files and variables, and the index that it has without any."""
    settings: Settings = {}
    for line in _pip("config", "list").splitlines():
        option, _, value = line.partition("=")
        words = str(ast.literal_eval(value)).split()
        settings.setdefault(option.rpartition(".")[2], []).extend(words)
    if "index-url" not in settings:
        default = re.search(r"--index-url <url>.*\(default (\S+?)\)", _pip("download", "--help"))
        settings["index-url"] = [default[1]] if default else []
    return settings


def _pip(*arguments: str) -> str:
    done = subprocess.run(
        [*python_module("pip"), *arguments, "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        check=False,
        env={**inherited(), "COLUMNS": "10000"},  # no line of the help is broken
    )
    return done.stdout


def _links(settings: Settings, name: str, file: str) -> Iterator[str]:
    """Addresses of the files with this name: in pip's folders first, then on its indexes."""
    places = settings.get("find-links", [])
    if "no-index" not in settings:
        normal = re.sub(r"[-_.]+", "-", name).lower()
        indexes = [*settings["index-url"], *settings.get("extra-index-url", [])]
        places = [*places, *(f"{index.rstrip('/')}/{normal}/" for index in indexes)]
    for place in places:
        folder = _folder(place)
        if folder is None:
            yield from _linked(place, settings, file)
        elif (folder / file).is_file():
            yield (folder / file).resolve().as_uri()
        elif (folder / "index.html").is_file():
            yield from _linked((folder / "index.html").resolve().as_uri(), settings, file)


def _folder(place: str) -> Path | None:
    """The folder that a path or a file address names."""
    if place.startswith("file:"):
        place = url2pathname(urlsplit(place).path)
    return None if "://" in place else Path(place).expanduser()


class _Anchors(HTMLParser):
    """The addresses of a page's links."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def _linked(page: str, settings: Settings, file: str) -> Iterator[str]:
    anchors = _Anchors()
    with _opened(page, settings) as content:
        anchors.feed(content.read().decode(errors="replace"))
    for link in anchors.found:
        if unquote(urlsplit(link).path).rpartition("/")[2] == file:
            yield urljoin(page, link)


def _opened(address: str, settings: Settings) -> IO[Any]:
    """What an address has, as bytes to read; name and password in it are sent as HTTP wants it."""
    parts = urlsplit(address)
    who, _, host = parts.netloc.rpartition("@")
    headers = {"Accept": "text/html, */*;q=0.1", "User-Agent": "tokenmart"}
    if who:
        headers["Authorization"] = f"Basic {base64.b64encode(unquote(who).encode()).decode()}"
    request = Request(urlunsplit(parts._replace(netloc=host)), headers=headers)
    certificates = settings.get("cert", [])
    context = ssl.create_default_context(cafile=certificates[-1] if certificates else None)
    opened: IO[Any] = urlopen(request, timeout=_TIMEOUT_SECONDS, context=context)
    return opened
