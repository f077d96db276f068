"""A build of everything is left out while nothing it reads has changed."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pytest

from warehouse.metrics import last_build, run_dbt
from warehouse.paths import Workspace

PROFILE = """
tokenmart:
  target: local
  outputs:
    local: {type: duckdb, path: "{{ env_var('TOKENMART_DATABASE') }}", schema: main}
"""


@pytest.fixture
def project(workspace: Workspace) -> Workspace:
    """A dbt project of one model."""
    folder = workspace.dbt_project
    (folder / "dbt_project.yml").write_text(
        "{name: tokenmart, profile: tokenmart, version: '1.0'}\n"
    )
    (folder / "profiles.yml").write_text(PROFILE)
    (folder / "models").mkdir()
    (folder / "models" / "one.sql").write_text("select 1 as one")
    return workspace


def write_database(workspace: Workspace, value: int = 1) -> None:
    workspace.database.parent.mkdir(exist_ok=True)
    with duckdb.connect(str(workspace.database)) as connection:
        connection.execute(f"create or replace table one as select {value} as one")


def add_data(workspace: Workspace) -> None:
    folder = workspace.tokens / "problem=x"
    folder.mkdir(parents=True)
    (folder / "tokens.parquet").write_bytes(b"rows")


def change_model(workspace: Workspace) -> None:
    (workspace.dbt_project / "models" / "one.sql").write_text("select 11 as one")


def remove_model(workspace: Workspace) -> None:
    (workspace.dbt_project / "models" / "one.sql").unlink()


def write_log(workspace: Workspace) -> None:
    (workspace.dbt_project / "target").mkdir()
    (workspace.dbt_project / "target" / "manifest.json").write_text("{}")


@pytest.mark.parametrize(
    ("happens", "still_current"),
    [
        (write_log, True),
        (add_data, False),
        (change_model, False),
        (remove_model, False),
        (lambda workspace: write_database(workspace, 2), False),
        (lambda workspace: workspace.database.unlink(), False),
    ],
)
def test_what_makes_a_build_necessary(
    happens: Callable[[Workspace], None], still_current: bool, project: Workspace
) -> None:
    reads = last_build.read_by_build(project)
    assert not last_build.is_current(project, reads)
    write_database(project)
    last_build.remember(project, reads)
    assert last_build.is_current(project, last_build.read_by_build(project))
    happens(project)
    assert last_build.is_current(project, last_build.read_by_build(project)) == still_current


def test_a_setting_of_dbt_makes_a_build_necessary(
    project: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = last_build.read_by_build(project)
    monkeypatch.setenv("TOKENMART_DBT_THREADS", "2")
    assert last_build.read_by_build(project) != before


@pytest.mark.slow
def test_a_second_build_is_left_out_and_a_selection_never(
    project: Workspace, capfd: pytest.CaptureFixture[str]
) -> None:
    def times() -> int:
        return project.database.stat().st_mtime_ns

    assert run_dbt(("--quiet", "build"), project) == 0
    built = times()
    capfd.readouterr()
    assert run_dbt(("build", "--quiet"), project) == 0
    assert "nothing new since the last build" in capfd.readouterr().out and times() == built
    (project.dbt_project / "models" / "one.sql").write_text("select broken")
    assert run_dbt(("build",), project) != 0
    change_model(project)
    assert run_dbt(("build", "--select", "one"), project) == 0
    assert "nothing new" not in capfd.readouterr().out
    with duckdb.connect(str(project.database), read_only=True) as connection:
        assert connection.execute("from one").fetchall() == [(11,)]
    assert run_dbt(("build",), project) == 0
    assert "nothing new" not in capfd.readouterr().out
