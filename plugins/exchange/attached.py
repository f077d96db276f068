"""Which bundles of other labs are attached: their names and addresses, in `attached.json`."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from warehouse.errors import StorageError, TokenmartError
from warehouse.files import write_whole
from warehouse.paths import Workspace

_TAKEN = {"information_schema", "intermediate", "labs", "main", "memory", "metrics", "pg_catalog",
          "staging", "system", "temp", "tokenmart"}  # fmt: skip


@dataclass(frozen=True)
class Attached:
    """A bundle that was checked when it was attached.

    name: the schema of its tables in SQL.
    address: a folder, or s3://bucket/prefix.
    sha256: of its manifest.
    """

    name: str
    address: str
    sha256: str


def attached(workspace: Workspace) -> tuple[Attached, ...]:
    """The bundles that are attached, by name.

    Raises:
        StorageError: the record can't be read.
    """
    path = _record(workspace)
    try:
        found = json.loads(path.read_bytes())
        return tuple(Attached(**each) for each in found)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise StorageError(
            f"{path}: can't be read ({error}); delete it and attach the bundles again"
        ) from error


def remember(workspace: Workspace, bundle: Attached) -> None:
    """Add a bundle, or replace the one of this name.

    Raises:
        StorageError: the record can't be read or written.
    """
    others = [each for each in attached(workspace) if each.name != bundle.name]
    _write(workspace, [*others, bundle])


def forget(workspace: Workspace, name: str) -> None:
    """Remove a bundle from the list; its files are kept.

    Raises:
        TokenmartError: none has this name.
        StorageError: the record can't be read or written.
    """
    known = attached(workspace)
    if name not in {each.name for each in known}:
        names = ", ".join(each.name for each in known) or "none"
        raise TokenmartError(f"{name}: no bundle of this name is attached; attached: {names}")
    _write(workspace, [each for each in known if each.name != name])


def check_name(name: str) -> None:
    """Refuse what can't be the schema of a bundle.

    Raises:
        TokenmartError: it is taken, or not lower-case letters, digits and _.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,30}", name) or name in _TAKEN:
        raise TokenmartError(
            f"--name {name[:60]}: not free for a bundle; take lower-case letters, digits and _, "
            "such as lab2"
        )


def _record(workspace: Workspace) -> Path:
    return workspace.data / "attached.json"


def _write(workspace: Workspace, bundles: list[Attached]) -> None:
    found = sorted((asdict(each) for each in bundles), key=lambda each: each["name"])
    write_whole(_record(workspace), json.dumps(found, indent=1) + "\n")
