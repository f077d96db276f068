"""Whether anything that `dbt build` reads has changed since it last succeeded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from warehouse.files import write_whole
from warehouse.paths import Workspace
from warehouse.store.schema import TABLES

_WHOLE_BUILDS = (("build",), ("--quiet", "build"), ("build", "--quiet"))
_GENERATED = {"target", "logs", "dbt_packages", "__pycache__"}


def builds_all(arguments: Sequence[str]) -> bool:
    """Whether these words build everything, and nothing anew: only such builds are remembered."""
    return tuple(arguments) in _WHOLE_BUILDS


def read_by_build(workspace: Workspace, options: Sequence[str] = ()) -> str:
    """sha256 of what a build reads: sizes and times of files, environment, versions, options.

    Reads no contents, like make: a second on thousands of files.
    """
    here = Path(__file__).parents[1]
    folders = (workspace.dbt_project, here, *(workspace.data / name for name in TABLES))
    parts = [
        *(f"{path}|{path.stat().st_size}|{path.stat().st_mtime_ns}" for path in _files(folders)),
        *(f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(("DBT_", "TOKENMART"))),
        *(f"{name}=={version(name)}" for name in ("dbt-core", "dbt-duckdb", "duckdb")),
        str(workspace.data),
        *options,
    ]
    return sha256("\n".join(parts).encode()).hexdigest()


def is_current(workspace: Workspace, reads: str) -> bool:
    """Whether the last whole build read just this, and nothing has written the database since."""
    try:
        return bool(json.loads(_path(workspace).read_text("utf-8")) == _state(workspace, reads))
    except (OSError, ValueError):
        return False


def remember(workspace: Workspace, reads: str) -> None:
    """Note a whole build that succeeded.

    Args:
        workspace: whose database was built.
        reads: from `read_by_build`, before the build began.
    """
    write_whole(_path(workspace), json.dumps(_state(workspace, reads)))


def _path(workspace: Workspace) -> Path:
    return workspace.database.with_name(workspace.database.name + ".built")


def _state(workspace: Workspace, reads: str) -> dict[str, str | int]:
    found = workspace.database.stat()
    return {"reads": reads, "size": found.st_size, "modified_ns": found.st_mtime_ns}


def _files(folders: Sequence[Path]) -> Iterator[Path]:
    for top in folders:
        for folder, inside, names in os.walk(top):
            inside[:] = sorted(name for name in inside if name not in _GENERATED)
            at = Path(folder)
            databases = (".duckdb", ".wal", ".built", ".pyc")
            yield from (
                at / name
                for name in sorted(names)
                if not name.startswith(".") and not name.endswith(databases)
            )
