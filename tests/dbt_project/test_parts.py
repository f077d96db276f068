"""A table of tokens that is built by parts has the rows of one that is built whole."""

from __future__ import annotations

import shutil

import duckdb
import pytest
from dbt_harness import Warehouse

PARTS = ("--vars", '{"part_tokens": 1000, "grids": true}')
"""Less than one model has: every model is a part."""


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
