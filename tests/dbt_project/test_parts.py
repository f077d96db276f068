"""A table of tokens that is built by parts has the rows of one that is built whole."""

from __future__ import annotations

import shutil

import duckdb
import pytest
from dbt_harness import Warehouse

PARTS = ("--vars", '{"part_tokens": 1000, "grids": true}')
"""Less than one model has: every model is a part."""


@pytest.mark.slow
@pytest.mark.parametrize("started_with", ["nothing", "one model", "all but one model"])
def test_parts_give_the_rows_and_values_of_the_whole(built, tmp_path, started_with):
    database = tmp_path / built.database.name
    parts = Warehouse(built.data, database)
    if started_with != "nothing":
        shutil.copyfile(built.database, database)
        kept = "max(model_id)" if started_with == "one model" else "min(model_id)"
        comparison = "=" if started_with == "one model" else "!="
        with duckdb.connect(str(database)) as connection:
            connection.execute(
                f"delete from fct_tokens where not (model_id {comparison} "
                f"(select {kept} from token_units))"
            )
    parts.run(*PARTS, "--select", "+fct_tokens")
    with duckdb.connect(str(database), read_only=True) as connection:
        connection.execute(f"attach '{built.database}' as whole (read_only)")
        for one, other in (("fct_tokens", "whole.fct_tokens"), ("whole.fct_tokens", "fct_tokens")):
            assert connection.execute(f"from {one} except all from {other}").fetchall() == []


@pytest.mark.slow
def test_a_table_is_there_with_all_its_parts_or_not_at_all(built, tmp_path):
    """A build that stops between two parts; a metric would take the first for all."""
    stopped = Warehouse(built.data, tmp_path / built.database.name).with_own_project(tmp_path)
    macro = stopped.project / "macros" / "in_parts.sql"
    text = macro.read_text(encoding="utf-8")
    end = "{%- do run_query('reset variable first_model') -%}"
    assert end in text
    failing = "{%- do run_query('select error(1)') -%}"
    macro.write_text(text.replace(end, failing), encoding="utf-8")
    assert stopped.dbt("run", "--quiet", *PARTS, "--select", "+fct_tokens").returncode != 0
    with duckdb.connect(str(stopped.database), read_only=True) as connection:
        tables = connection.execute("select table_name from information_schema.tables").fetchall()
    assert ("token_units",) in tables and ("fct_tokens",) not in tables
