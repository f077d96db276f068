"""The state of a problem: what a build was made from, and what has changed since."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from made_up_warehouse import Shape

from warehouse.paths import Workspace
from warehouse.sql.problem_state import read_states, write_states
from warehouse.store.ledger import read_units
from warehouse.store.parquet_files import read_table, write_table
from warehouse.store.token_files import published_path, read_rows, write_units

KEYS = ("minilong", "good", "full")
MARTS = ("metric_values",)


def file_of(store: Workspace, table: str) -> Path:
    return sorted((store.store / table).rglob("*.parquet"))[0]


def record_build(store: Workspace) -> None:
    """What a dbt run writes: the state before it, and the SQL of the table."""
    model = store.dbt_project / "models" / "values.sql"
    model.parent.mkdir(exist_ok=True)
    model.write_text("select 1\n")
    store.database.parent.mkdir(parents=True, exist_ok=True)
    from warehouse.sql.views import create_views

    with duckdb.connect(str(store.database)) as connection:
        create_views(connection, store)
        write_states(connection, store)
        connection.execute(
            "create or replace table main.built_tables as select 'metric_values' as model, "
            "['models/values.sql ' || md5('select 1')] as sources, []::varchar[] as parents, * "
            "from main.problem_states"
        )


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    write_table(path, change(read_table(path)))


def republish(store: Workspace) -> None:
    """Write the same units and rows again, in a file of another time."""
    path = published_path(store, *KEYS)
    write_units(path, read_units(path), [read_rows(path)])
    later = path.stat().st_mtime + 3600
    os.utime(path, (later, later))


def edit_macro(store: Workspace) -> None:
    folder = store.dbt_project / "macros"
    folder.mkdir(exist_ok=True)
    (folder / "metric.sql").write_text("{% macro metric() %}{% endmacro %}")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (republish, []),
        (lambda s: os.utime(s.database, (2e9, 2e9)), []),
        (lambda s: (s.dbt_project / "models" / "values.sql").write_text(" select 1"), []),
        (lambda s: (s.dbt_project / "models" / "values.sql").write_text("select 2"),
         ["models/values.sql"]),
        (lambda s: (s.dbt_project / "models" / "values.sql").unlink(), ["models/values.sql"]),
        (lambda s: published_path(s, *KEYS).unlink(), ["units"]),
        (lambda s: rewrite(file_of(s, "documents"), lambda t: t.slice(0, 1)),
         ["texts", "units"]),  # a unit of the other text is outdated
        (lambda s: rewrite(file_of(s, "models"), lambda t: t.set_column(
            t.schema.get_field_index("licence"), t.schema.field("licence"), [["new"]])),
         ["other tables"]),
        (edit_macro, ["macros and views"]),
    ],
)  # fmt: skip
def test_what_has_changed_since_the_build_is_named(filled, change, parts):
    record_build(filled)
    before = read_states(filled, "minilong", MARTS)
    assert before.built == before.current and before.changed == []
    change(filled)
    after = read_states(filled, "minilong", MARTS)
    assert after.changed == parts
    assert after.built == before.built
    assert (after.current.sha256 == before.current.sha256) == (parts == [])
    record_build(filled)
    assert read_states(filled, "minilong", MARTS).changed == []


def test_a_build_that_is_not_recorded_has_no_state(filled):
    assert read_states(filled, "minilong", MARTS).built is None
    record_build(filled)
    assert read_states(filled, "minilong", ["rankings"]).built is None
    assert read_states(filled, "other", MARTS).built is None


def test_another_problem_changes_nothing(filled):
    record_build(filled)
    other = filled.store / "documents" / "problem=mine" / "documents.parquet"
    write_table(other, read_table(file_of(filled, "documents")))
    assert read_states(filled, "minilong", MARTS).changed == []


@pytest.mark.slow
def test_a_dbt_run_records_what_each_model_was_built_from(new_warehouse):
    """An upstream table that is older than the data counts, too."""
    warehouse = new_warehouse(Shape(models=1, documents=1, tokens=300))
    store = Workspace(warehouse.project.parent, warehouse.data, warehouse.database)

    def changed(*marts: str) -> list[str]:
        return read_states(store, "synthetic", marts).changed

    def run(*selection: str) -> None:
        done = warehouse.dbt("run", "--select", *selection)
        assert done.returncode == 0, done.stdout

    run("+coverage", "token_units", "words")
    state = read_states(store, "synthetic", ["coverage"])
    assert state.built == state.current
    assert "models/staging/stg_coverage.sql" in state.current.parts  # ephemeral
    path = file_of(store, "documents")
    rewrite(path, lambda t: t.set_column(1, t.schema.field("name"), [["renamed"]]))
    assert changed("coverage") == []
    rewrite(path, lambda t: t.slice(0, 0))
    assert changed("coverage") == changed("words") == ["texts"]
    run("coverage")
    assert changed("coverage") == [] and changed("words", "coverage") == ["texts"]
