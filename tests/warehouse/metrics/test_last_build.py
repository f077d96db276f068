"""A build of everything is left out while nothing it reads has changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from warehouse.metrics import last_build
from warehouse.metrics.dbt_process import run_dbt
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


def add_variant(workspace: Workspace) -> None:
    with (workspace.dbt_project / "variants" / "perplexity.csv").open("a") as file:
        file.write("perplexity,added\n")


def add_family(workspace: Workspace) -> None:
    """And list it, as every way of starting dbt does."""
    folder = workspace.dbt_project / "models" / "marts" / "custom"
    folder.mkdir(parents=True)
    (folder / "mine.sql").write_text("select 1 as one")
    (workspace.dbt_project / "macros").mkdir()
    (workspace.dbt_project / "macros" / "listed_families.sql").write_text("{# mine #}")


def record(workspace: Workspace) -> Path:
    return workspace.database.with_name(f"{workspace.database.name}.built")


def change_model(workspace: Workspace) -> None:
    (workspace.dbt_project / "models" / "one.sql").write_text("select 11 as one")


def remove_model(workspace: Workspace) -> None:
    (workspace.dbt_project / "models" / "one.sql").unlink()


def write_log(workspace: Workspace) -> None:
    (workspace.dbt_project / "target").mkdir()
    (workspace.dbt_project / "target" / "manifest.json").write_text("{}")


@pytest.mark.parametrize(
    ("happens", "differs", "same_sql"),
    [
        (write_log, [], True),
        (add_variant, ["perplexity"], True),
        (add_family, ["mine"], False),
        (
            lambda workspace: (add_family(workspace), add_variant(workspace)),
            ["mine", "perplexity"],
            False,
        ),
        (lambda workspace: (add_variant(workspace), add_data(workspace)), None, True),
        (lambda workspace: (add_variant(workspace), change_model(workspace)), None, False),
        (add_data, None, True),
        (change_model, None, False),
        (remove_model, None, False),
        (lambda workspace: write_database(workspace, 2), None, True),
        (lambda workspace: workspace.database.unlink(), None, True),
        (lambda workspace: record(workspace).write_text("{}"), None, False),
        (lambda workspace: record(workspace).write_text('{"reads": "old"}'), None, False),
    ],
)
def test_what_makes_a_build_necessary(
    happens: Callable[[Workspace], None],
    differs: list[str] | None,
    same_sql: bool,
    project: Workspace,
) -> None:
    def changed() -> list[str] | None:
        return last_build.changed_families(project, last_build.read_by_build(project))

    (project.dbt_project / "variants").mkdir()
    (project.dbt_project / "variants" / "perplexity.csv").write_text("metric,variant\n")
    assert changed() is None
    write_database(project)
    last_build.remember(project, last_build.read_by_build(project))
    assert changed() == []
    happens(project)
    assert changed() == differs
    assert last_build.tested(project, last_build.read_by_build(project)) == same_sql


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
