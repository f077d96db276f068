"""Paths of the project, derived from one root folder."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from warehouse.errors import TokenmartError
from warehouse.plugins import added


@dataclass(frozen=True)
class Workspace:
    """The folders of one Tokenmart checkout.

    `root` contains the code and the locked paths, `data` the Parquet files and the cache,
    `database` is the DuckDB file that dbt builds.
    `prefix` begins the names of the folders of token files: plugins have token files of their own.
    """

    root: Path
    data: Path
    database: Path
    prefix: str = ""

    @property
    def store(self) -> Path:
        """The folder of the Parquet files: `TABLE/problem=…/…` (`schema.table_path`)."""
        return self.data

    @property
    def problems(self) -> Path:
        """Folder of the shipped problem files."""
        return self.root / "data" / "problems"

    @property
    def tokens(self) -> Path:
        """Published token statistics: `problem=…/model_id=…/condition=…/tokens.parquet`."""
        return self.store / f"{self.prefix}tokens"

    @property
    def pending(self) -> Path:
        """Finished units not yet merged into their published file."""
        return self.store / f"{self.prefix}pending"

    @property
    def token_stores(self) -> list[Workspace]:
        """This workspace, and for each plugin with token files one whose folders have those."""
        others = [name for name in added("tables") if name.endswith("_tokens")]
        return [self, *(replace(self, prefix=name.removesuffix("tokens")) for name in others)]

    @property
    def cache(self) -> Path:
        """Downloads and converted weights; safe to delete."""
        return self.data / "cache"

    @property
    def lock_files(self) -> Path:
        """Recorded hashes and revisions, one JSON per problem; meant to be committed."""
        return self.root / "data" / "locks"

    @property
    def preregistered(self) -> Path:
        """Preregistered metrics, one JSON per problem; meant to be committed."""
        return self.root / "data" / "preregistered"

    @property
    def dbt_project(self) -> Path:
        """The dbt project folder."""
        return self.root / "dbt_project"

    @property
    def metric_names(self) -> list[str]:
        """Names of the metrics that SQL files of the dbt project define."""
        return sorted(path.stem for path in self.dbt_project.glob("models/metrics/**/*.sql"))

    def environment(self) -> dict[str, str]:
        """Variables that point a dbt run at this workspace."""
        return {
            "TOKENMART_HOME": str(self.root),
            "TOKENMART_DATA": str(self.data),
            "TOKENMART_DATABASE": str(self.database),
        }


def workspace_of(root: Path) -> Workspace:
    """The checkout in `root` and nothing else: no variable of the environment moves its folders."""
    return Workspace(root, root / "data", root / "warehouse" / "tokenmart.duckdb")


def shipped_folder() -> Path:
    """The folder with the dbt project and the problem files that belong to this code."""
    packaged = Path(__file__).parent / "shipped"  # in a wheel
    return packaged if packaged.is_dir() else Path(__file__).parents[1]


def list_problems(workspace: Workspace) -> list[str]:
    """Names of the problem files that ship or were added, sorted."""
    return sorted(path.stem for path in workspace.problems.glob("*.yml"))


def problems_here(workspace: Workspace) -> str:
    """What may be given as a problem, for messages."""
    names = ", ".join(list_problems(workspace)) or "none"
    return f"problems here: {names} (or give the path of your own .yml)"


def problem_record(name: str, workspace: Workspace) -> Path:
    """Where the path of the problem file is recorded whose documents are stored under a name."""
    return workspace.data / "problem_files" / f"{name}.path"


def recorded_file(name: str, workspace: Workspace) -> Path | None:
    """The problem file whose documents are stored under this name, if it is still there."""
    try:
        path = Path(problem_record(name, workspace).read_text(encoding="utf-8"))
    except OSError:
        return None
    return path if path.is_file() else None


def problem_argument(name: str, workspace: Workspace) -> str | None:
    """The value of `--problem` for a problem that has stored rows, as short as it can be.

    None where its file isn't known.
    """
    if name in list_problems(workspace):
        return name
    path = recorded_file(name, workspace) or Path(f"{name}.yml").resolve()
    if not path.is_file():
        return None
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def find_workspace(start: Path | None = None) -> Workspace:
    """Find the checkout: $TOKENMART_HOME, else upwards from `start`, else the parent of this
    package.

    $TOKENMART_DATA and $TOKENMART_DATABASE move the data folder and the DuckDB file.

    Raises:
        TokenmartError: no folder with `dbt_project/dbt_project.yml` was found, the data folder
            that the variable names is missing, or the path of the Parquet files has a `=`.
    """
    named = os.environ.get("TOKENMART_HOME")
    here = (start or Path.cwd()).resolve()
    candidates = (
        [Path(named).resolve()] if named else [here, *here.parents, Path(__file__).parents[1]]
    )
    for root in candidates:
        if (root / "dbt_project" / "dbt_project.yml").is_file():
            break
    else:
        looked = named or here
        raise TokenmartError(
            f"{looked}: no Tokenmart workspace here (no dbt_project/dbt_project.yml); make one "
            "with `tokenmart init FOLDER`, run inside one or the repository, or set TOKENMART_HOME"
        )
    elsewhere = os.environ.get("TOKENMART_DATA")
    data = Path(elsewhere or root / "data").resolve()
    if elsewhere and not data.is_dir():
        raise TokenmartError(
            f"TOKENMART_DATA={elsewhere}: no such folder; mount the disk it is on, make the folder "
            "if it is new, or unset the variable"
        )
    if "=" in str(data):
        raise TokenmartError(
            f"{data}: DuckDB would take the part with `=` for a column of every file in it; rename "
            "it, or set TOKENMART_DATA to another folder",
            code="partition-in-path",
            where=data,
        )
    database = os.environ.get("TOKENMART_DATABASE") or root / "warehouse" / "tokenmart.duckdb"
    return Workspace(root, data, Path(database).resolve())
