"""What has changed of all that `dbt build` reads since it last succeeded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from warehouse.files import write_whole
from warehouse.metrics.registry import FOLDERS, LIST
from warehouse.paths import Workspace
from warehouse.remote import RemotePath
from warehouse.store.schema import TABLES
from warehouse.store.share import Share

_WHOLE_BUILDS = (("build",), ("--quiet", "build"), ("build", "--quiet"))
_GENERATED = {"target", "logs", "dbt_packages", "__pycache__"}


@dataclass(frozen=True)
class Reads:
    """Fingerprints of what a build reads.

    variants: of each family's variants file, by the family's name.
    families: of each family's SQL and YAML, likewise.
    sql: of the rest of the dbt project and the versions of what runs it.
    rest: of all else: data, environment, our own code, options.
    """

    variants: dict[str, str]
    families: dict[str, str]
    sql: str
    rest: str


def builds_all(arguments: Sequence[str]) -> bool:
    """Whether these words build everything, and nothing anew: only such builds are remembered."""
    return tuple(arguments) in _WHOLE_BUILDS


def read_by_build(
    workspace: Workspace, options: Sequence[str] = (), share: Share | None = None
) -> Reads:
    """What a build would read now, by sizes and times of files, versions, environment, options.

    Reads no contents, like make: a second on thousands of files. Of token files those of the share
    count, of all without one.
    """
    project = workspace.dbt_project
    variants: dict[str, list[str]] = {}
    families: dict[str, list[str]] = {}
    sql = [f"{name}=={version(name)}" for name in ("dbt-core", "dbt-duckdb", "duckdb")]
    own = tuple(project / folder for folder in FOLDERS)
    for path in _files(project):
        if path.parent == project / "variants":
            variants.setdefault(path.stem, []).append(_marks(path))
        elif any(path.is_relative_to(folder) for folder in own):
            families.setdefault(path.stem, []).append(_marks(path))
        elif path != project / LIST:  # made from the families
            sql.append(_marks(path))
    settings = sorted(os.environ.items())
    rest = [
        *(_marks(path) for path in _files(Path(__file__).parents[1])),
        *(_marks(path) for path in _data_files(workspace, share)),
        *(f"{k}={v}" for k, v in settings if k.startswith(("DBT_", "TOKENMART"))),
        str(workspace.store),
        *options,
    ]
    return Reads(
        {name: _hash(marks) for name, marks in variants.items()},
        {name: _hash(marks) for name, marks in families.items()},
        _hash(sql),
        _hash(rest),
    )


def changed_families(workspace: Workspace, reads: Reads) -> list[str] | None:
    """Names of the families whose own files are all that differs from the last whole build.

    None when anything else differs, or has written the database since; then all may differ.
    """
    before, database = _known(workspace)
    if before is None or database != _state(workspace):
        return None
    if (before.sql, before.rest) != (reads.sql, reads.rest):
        return None
    changed = before.variants.items() ^ reads.variants.items()
    changed |= before.families.items() ^ reads.families.items()
    return sorted({family for family, _ in changed})


def narrowed(families: Sequence[str]) -> list[str]:
    """Arguments of dbt for a build after a change in these families' own files alone.

    Selected is what reads the variants on the way to one of these families, they themselves, and
    what their values go into. Other families compute the same again, and so does position_profile,
    whose octaves no variant names. `refuse_partial_builds` checks the selection.
    """
    chains = [
        word for family in families for word in (f"stg_metric_variants+,+{family}", f"{family}+")
    ]
    return ["--select", *chains, "1+metric_values", "metric_values+"]


def tested(workspace: Workspace, reads: Reads) -> bool:
    """Whether the SQL's unit tests have passed on this very SQL, whatever the data and variants."""
    before, _ = _known(workspace)
    return before is not None and (before.sql, before.families) == (reads.sql, reads.families)


def remember(workspace: Workspace, reads: Reads) -> None:
    """Note that the database now is what a whole build makes, and that all tests passed.

    Args:
        workspace: whose database was built.
        reads: from `read_by_build`, before the build began.
    """
    content = {"reads": asdict(reads), "database": _state(workspace)}
    write_whole(_path(workspace), json.dumps(content))


def _path(workspace: Workspace) -> Path:
    return workspace.database.with_name(workspace.database.name + ".built")


def _known(workspace: Workspace) -> tuple[Reads | None, list[int]]:
    """What the last whole build read, and the database as it left it."""
    try:
        content = json.loads(_path(workspace).read_text("utf-8"))
        return Reads(**content["reads"]), content["database"]
    except (OSError, ValueError, TypeError, KeyError):
        return None, []


def _state(workspace: Workspace) -> list[int]:
    """The database's size and time; nothing where there is none."""
    if not workspace.database.exists():
        return []
    found = workspace.database.stat()
    return [found.st_size, found.st_mtime_ns]


def _data_files(workspace: Workspace, share: Share | None) -> Iterator[Path]:
    for name in TABLES:
        folders = share.folders(workspace.store, name) if share else None
        for folder in [workspace.store / name] if folders is None else folders:
            yield from folder.rglob("*") if isinstance(folder, RemotePath) else _files(folder)


def _hash(parts: Sequence[str]) -> str:
    return sha256("\n".join(parts).encode()).hexdigest()


def _marks(path: Path) -> str:
    found = path.stat()
    return f"{path}|{found.st_size}|{found.st_mtime_ns}"


def _files(top: Path) -> Iterator[Path]:
    for folder, inside, names in os.walk(top):
        inside[:] = sorted(name for name in inside if name not in _GENERATED)
        at = Path(folder)
        databases = (".duckdb", ".wal", ".built", ".pyc")
        yield from (
            at / name
            for name in sorted(names)
            if not name.startswith(".") and not name.endswith(databases)
        )
