"""The DuckDB macros for the field's terms, on the built warehouse."""

from __future__ import annotations

import pytest
from dbt_harness import PROJECT, Warehouse

from warehouse.sql.dataframes import query


def test_macros_and_plain_names_work_in_ad_hoc_queries(built, monkeypatch):
    """`tokenmart sql` has its own copies: they work before dbt has run, and while it runs."""
    monkeypatch.setenv("TOKENMART_HOME", str(PROJECT.parent))
    monkeypatch.setenv("TOKENMART_DATA", str(built.data))
    text = (
        "select model_id, token_text(doc_id, char_start, char_end, problem) as token, ppl(logprob) "
        "from tokens where condition = 'full' and position = 5 and doc_id = 0 "
        "group by all order by all"
    )
    answers = []
    for database in (built.database, built.database.with_name("not_built.duckdb")):
        monkeypatch.setenv("TOKENMART_DATABASE", str(database))
        answers.append(query(text).to_pylist())
    assert answers[0]
    assert answers[0] == answers[1]
    monkeypatch.setenv("TOKENMART_DATABASE", str(built.database))
    for name in ("metric_values", "perplexity", "token_units", "fct_tokens"):
        assert query(f"select count(*) > 0 as found from {name}").to_pylist() == [{"found": True}]


def test_token_text_and_snippet(built):
    ((text,),) = built.rows("select text from documents where doc_id = 1")
    rows = built.rows(
        "select token_text(doc_id, char_start, char_end, problem), "
        "context_snippet(doc_id, char_start, char_end, problem, width := 10), char_start, char_end "
        "from tokens where doc_id = 1 and condition = 'full' and model_id = 'lab--model-0'"
    )
    assert len(rows) > 100
    for token, snippet, start, end in rows:
        assert token == text[start:end]
        before = text[max(start - 10, 0) : start]
        assert snippet == f"{before}[{token}]{text[end : end + 10]}"


def test_paired_tokens_are_those_of_fct_tokens(built):
    columns = "select model_id, count(*), sum(short_context_tokens)"
    found = built.rows(
        f"{columns}, round(sum(gain), 9) from paired_tokens('synthetic', 'window_64')"
        " group by all order by all"
    )
    assert found and found == built.rows(
        f"{columns}, round(sum(short_nll - nll), 9) from fct_tokens"
        " where pair = 'window_64' and short_nll is not null group by all order by all"
    )


@pytest.mark.slow
def test_a_first_run_of_a_part_needs_no_views(built, tmp_path):
    Warehouse(built.data, tmp_path / "new.duckdb", built.project).run("--select", "stg_units")
