"""How DuckDB reads the Parquet files behind the views: few files, good estimates, any columns."""

from __future__ import annotations

import re

import pyarrow.parquet as pq
import pytest
from made_up_warehouse import Shape, write_warehouse
from sql_samples import ask

from warehouse.paths import Workspace
from warehouse.sql.dataframes import query
from warehouse.store.ledger import with_units
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import TOKENS
from warehouse.store.token_files import published_path


@pytest.fixture
def made_up(workspace: Workspace) -> Workspace:
    """Sixteen files: four models × full, window, retrieval with and without."""
    write_warehouse(workspace.data, Shape("minilong", models=4, documents=3, tokens=600))
    return workspace


def explain(workspace: Workspace, sql: str, analyze: bool = True, **parameters: str) -> str:
    question = f"explain {'analyze ' if analyze else ''}{sql}"
    return "\n".join(query(question, **parameters)["explain_value"].to_pylist())


JOIN = """from tokens l inner join tokens s using (problem, model_id, doc_id, position)
where l.model_id = 'lab--model-2' and l.condition = 'full' and s.condition = 'window_64'"""


@pytest.mark.parametrize(
    ("tokens", "files"),
    [
        ("from tokens where model_id = $model and condition = 'full'", 1),
        ("from tokens where problem = 'minilong' and model_id = $model", 4),
        ("from tokens where condition in ('full', 'window_64')", 8),
        ("from tokens where problem = 'elsewhere'", 0),
        # the model's condition reaches the other side of the join
        (JOIN, 2),
    ],
)
def test_only_the_files_of_the_partition_are_read(made_up, tokens, files):
    parameters = {"model": "lab--model-1"} if "$model" in tokens else {}
    plan = explain(made_up, f"select count(doc_id) {tokens}", **parameters)
    assert sum(map(int, re.findall(r"Total Files Read: (\d+)", plan))) == files


def test_the_planner_knows_how_many_tokens_there_are(made_up):
    """A file without rows sorts first: planned by it alone, the table would look empty."""
    empty = with_units(TOKENS, []).empty_table()
    write_table(published_path(made_up, "a", "a", "full"), empty)
    rows = ask("select count(*) as n from tokens")[0]["n"]
    plan = explain(made_up, "select logprob from tokens", analyze=False)
    estimate = int(re.findall(r"~([\d,]+) rows?", plan)[-1].replace(",", ""))
    assert 0.8 * rows < estimate < 1.25 * rows


def test_columns_are_matched_by_name(made_up):
    path = published_path(made_up, "minilong", "lab--model-1", "full")
    totals = "select sum(logprob::decimal(18, 6)) as s, max(rank) as r from tokens"
    before = ask(totals)
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.select(table.column_names[::-1]), path)
    assert ask(totals) == before


def test_types_are_the_schemas_whichever_file_comes_first(made_up):
    odd = made_up.tokens / "problem=00" / "model_id=1" / "condition=2" / "tokens.parquet"
    write_table(odd, with_units(TOKENS, []).empty_table())
    types = {row["column_name"]: row["column_type"] for row in ask("describe tokens")}
    assert (types["problem"], types["model_id"], types["condition"]) == ("VARCHAR",) * 3
    assert (types["logprob"], types["position"]) == ("FLOAT", "INTEGER")
