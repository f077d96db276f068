"""A workspace outside a checkout: the dbt project, plugins' SQL and problem files, to be edited."""

from __future__ import annotations

import shutil
from pathlib import Path

from warehouse.errors import TokenmartError
from warehouse.files import storage_errors

CODE = Path(__file__).parents[1]
SHIPPED = CODE / "shipped"
"""In an installed wheel; a checkout has the same folders at its root."""

_PARTS = (
    "dbt_project",
    "data/problems",
    "data/published",
    "data/preregistered",
    "data/sources.yml",
)
_LEFT_OUT = shutil.ignore_patterns("target", "logs", "*.lock", ".user.yml")


def make_workspace(folder: Path) -> list[Path]:
    """Write a workspace; nothing that is there is replaced.

    Args:
        folder: a new one, or one without a dbt project.

    Returns:
        What was written, relative to the folder.

    Raises:
        TokenmartError: there is one already, or these files aren't part of the installation.
        StorageError: it can't be written.
    """
    source = SHIPPED if SHIPPED.is_dir() else CODE.parent
    if not (source / "dbt_project" / "dbt_project.yml").is_file():
        raise TokenmartError(
            f"{source}: no dbt_project in this installation; install the wheel again"
        )
    found = {Path(part): source / part for part in _PARTS if (source / part).exists()}
    plugins = sorted((CODE.parent / "plugins").glob("*/dbt"))
    found |= {path.relative_to(CODE.parent): path for path in plugins}
    for name in found:
        if (folder / name).exists():
            raise TokenmartError(f"{folder / name}: there already; give a new folder")
    written = []
    with storage_errors(folder):
        for name, path in found.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, target, ignore=_LEFT_OUT)
            else:
                shutil.copyfile(path, target)
            written.append(name)
        (folder / "warehouse").mkdir(exist_ok=True)  # for the database, which dbt opens by itself
        # where dbt looks when it is started one folder up
        shutil.copyfile(folder / "dbt_project" / "profiles.yml", folder / "profiles.yml")
    return written
