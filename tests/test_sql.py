"""Ad-hoc SQL: the cookbook's answers worked by hand, formats, mistakes, read-only."""

from __future__ import annotations

import csv
import json
import math
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tokenmart import cli
from warehouse.database import connect_for_queries, connect_read_only
from warehouse.documents import Document, documents_table
from warehouse.errors import StorageError
from warehouse.ledger import UnitRecord, with_units
from warehouse.paths import Workspace
from warehouse.queries import list_queries
from warehouse.schema import DOWNSTREAM, MODELS, TOKENS
from warehouse.store import ensure_tables, published_path, write_table

TEXT = "abcdefgh"
"""The one document: eight characters, one token each, token ids 0 1 2 3 0 1 2 3."""

FULL = {
    "good": [-1.0, -1.0, -1.0, -1.0, -0.1, -0.1, -0.1, -0.1],
    "bad": [-2.0] * 8,
}
SHORT_POSITIONS = range(4, 8)
SHORT = {"good": [-3.1, -0.1, -0.3, -0.1], "bad": [-2.0, -2.0, -1.0, -2.0]}
WITH = {"good": [-0.5, -0.5], "bad": [-2.0, -2.0]}
WITHOUT = {"good": [-1.5, -2.5], "bad": [-1.0, -2.0]}


def unit(model: str, probe: str, rows: int, **changes: Any) -> UnitRecord:
    values: dict[str, Any] = {
        **dict.fromkeys(UnitRecord.__dataclass_fields__, ""),
        "problem": "minilong",
        "model_id": model,
        "probe": probe,
        "doc_id": 0,
        "status": "done",
        "rows": rows,
        "tokens_processed": 8,
        "tokens_scored": rows,
        "seconds": 2.0,
        "peak_bytes": 3_000_000_000,
        "document_tokens": 8,
        "document_tokens_total": 8,
        "code_dirty": False,
        "seed": 0,
        "finished_at": "2026-01-02T03:04:05+00:00",
    }
    return UnitRecord(**{**values, **changes})


def tokens(logprobs: list[float], positions: list[int], context: list[int]) -> pa.Table:
    count = len(logprobs)
    columns = {
        "doc_id": [0] * count,
        "segment": [0] * count,
        "position": positions,
        "context_tokens": context,
        "token_id": [position % 4 for position in positions],
        "char_start": positions,
        "char_end": [position + 1 for position in positions],
        "logprob": logprobs,
        "entropy": [1.0] * count,
        "rank": [1 if value > -1.5 else 20 for value in logprobs],
        "top_logprob": [max(value, math.log(0.25)) for value in logprobs],
    }
    return pa.table(columns, schema=TOKENS)


@pytest.fixture
def filled(workspace: Workspace) -> Workspace:
    """Two models, one document, all probes; `bad` also has a failed unit."""
    ensure_tables(workspace)
    document = workspace.documents / "problem=minilong" / "documents.parquet"
    write_table(document, documents_table([Document("a.txt", TEXT)]))
    for model in ("good", "bad"):
        keys = f"problem=minilong/model_id={model}"
        row = {
            **dict.fromkeys(MODELS.names, ""),
            "base_id": None if model == "good" else "good",
            "tokenizer_sha256": "0123456789",
            "parameters": 10,
            "trained_context": 8,
            "prepends_bos": True,
        }
        write_table(
            workspace.models / keys / "model.parquet", pa.Table.from_pylist([row], schema=MODELS)
        )
        scores = [1.0, 0.0, 1.0, 1.0] if model == "good" else [0.0, 0.0, 0.0, 1.0]
        items = [
            {"task": "recall_8", "item": item, "cluster": item // 2, "score": score}
            for item, score in enumerate(scores)
        ]
        write_table(
            workspace.downstream / keys / "items.parquet",
            pa.Table.from_pylist(items, schema=DOWNSTREAM),
        )
        late = list(SHORT_POSITIONS)
        for probe, table in {
            "full": tokens(FULL[model], list(range(8)), list(range(8))),
            "window_512": tokens(SHORT[model], late, [2, 3, 2, 3]),
            "retrieval_with": tokens(WITH[model], [2, 3], [10, 11]),
            "retrieval_without": tokens(WITHOUT[model], [2, 3], [2, 3]),
        }.items():
            units = [unit(model, probe, table.num_rows)]
            if (model, probe) == ("bad", "full"):
                lost = {"doc_id": 1, "status": "failed", "reason": "out of memory", "seconds": 0.0}
                units.append(unit(model, probe, 0, **lost))
            path = published_path(workspace, "minilong", model, probe)
            write_table(path, table.cast(with_units(TOKENS, units)))
    return workspace


def ask(*arguments: str) -> list[dict[str, Any]]:
    """Run `tokenmart sql … --format json` and return its rows."""
    result = CliRunner().invoke(cli, ["sql", *arguments, "--format", "json"])
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


def failure(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["sql", *arguments])
    assert result.exit_code != 0
    return result.exit_code, result.output


def rounded(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [
        tuple(round(row[n], 4) if isinstance(row[n], float) else row[n] for n in names)
        for row in rows
    ]


# The cookbook

EXPECTED: dict[str, tuple[list[str], tuple[str, ...], list[tuple[Any, ...]]]] = {
    "coverage": (
        [],
        ("model_id", "probe", "documents", "failed", "rows", "truncated"),
        [
            ("bad", "full", 1, 1, 8, False),
            ("bad", "retrieval_with", 1, 0, 2, False),
            ("bad", "retrieval_without", 1, 0, 2, False),
            ("bad", "window_512", 1, 0, 4, False),
            ("good", "full", 1, 0, 8, False),
            ("good", "retrieval_with", 1, 0, 2, False),
            ("good", "retrieval_without", 1, 0, 2, False),
            ("good", "window_512", 1, 0, 4, False),
        ],
    ),
    "cost": (
        [],
        (
            "model_id",
            "tokens_processed",
            "tokens_scored",
            "seconds",
            "tokens_per_second",
            "peak_gb",
        ),
        [("bad", 40, 16, 8.0, 5.0, 3.0), ("good", 32, 16, 8.0, 4.0, 3.0)],
    ),
    "failures": (
        [],
        ("model_id", "probe", "doc_id", "reason"),
        [("bad", "full", 1, "out of memory")],
    ),
    "perplexity": (
        [],
        ("model_id", "documents", "tokens", "nll_per_token", "perplexity", "bits_per_byte"),
        [
            ("good", 1, 8, 0.55, round(math.exp(0.55), 4), round(0.55 / math.log(2), 4)),
            ("bad", 1, 8, 2.0, round(math.exp(2), 4), round(2 / math.log(2), 4)),
        ],
    ),
    "position_curve": (
        [],
        ("model_id", "from_position", "tokens", "nll"),
        [
            ("bad", 1, 2, 2.0),
            ("bad", 2, 2, 2.0),
            ("bad", 4, 4, 2.0),
            ("good", 1, 2, 1.0),
            ("good", 2, 2, 1.0),
            ("good", 4, 4, 0.1),
        ],
    ),
    "context_gain": (
        [],
        ("model_id", "tokens", "mean_gain", "median_gain", "share_helped", "share_hurt"),
        [("good", 4, 0.8, 0.1, 0.25, 0.0), ("bad", 4, -0.25, 0.0, 0.0, 0.25)],
    ),
    "top_gain_tokens": (
        ["model=good", "limit=2"],
        ("gain", "token", "words_before", "position", "document"),
        [(3.0, "e", "abcd", 4, "a.txt"), (0.2, "g", "abcdef", 6, "a.txt")],
    ),
    "surprising_tokens": (
        ["model=good", "limit=2"],
        ("nll", "rank", "token", "words_before", "position"),
        [(1.0, 1, "a", "", 0), (1.0, 1, "b", "a", 1)],
    ),
    "read_tokens": (
        ["model=good", "from_position=3", "tokens=2"],
        ("position", "token", "nll", "rank", "context_tokens"),
        [(3, "d", 1.0, 1, 3), (4, "e", 0.1, 1, 4)],
    ),
    "document_difficulty": (
        [],
        ("document", "models", "bits_per_character", "easiest_for", "hardest_for"),
        [("a.txt", 2, round(1.275 / math.log(2), 4), "good", "bad")],
    ),
    "disagreement": (
        ["model_a=good", "model_b=bad", "limit=1"],
        ("logprob_a", "logprob_b", "token", "words_before"),
        [(-0.1, -2.0, "e", "abcd")],
    ),
    "calibration": (
        ["bins=2"],
        ("model_id", "from_probability", "tokens", "mean_probability", "accuracy"),
        [
            ("bad", 0.0, 8, 0.25, 0.0),
            ("good", 0.0, 4, round(math.exp(-1), 4), 1.0),
            ("good", 0.5, 4, round(math.exp(-0.1), 4), 1.0),
        ],
    ),
    "ranks": (
        [],
        ("model_id", "first", "among_10", "among_100", "median_rank", "mean_reciprocal_rank"),
        [("good", 1.0, 1.0, 1.0, 1.0, 1.0), ("bad", 0.0, 0.0, 1.0, 20.0, 0.05)],
    ),
    "repeated_tokens": (
        [],
        ("model_id", "occurrence", "tokens", "nll"),
        [
            ("bad", "first occurrence", 4, 2.0),
            ("bad", "seen < 64 tokens ago", 4, 2.0),
            ("good", "first occurrence", 4, 1.0),
            ("good", "seen < 64 tokens ago", 4, 0.1),
        ],
    ),
    "retrieval_gain": (
        [],
        ("model_id", "excerpts", "mean_gain", "share_helped"),
        [("good", 1, 1.5, 1.0), ("bad", 1, -0.5, 0.0)],
    ),
    "key_tokens": (
        [],
        ("model_id", "tokens", "key_tokens", "key_share", "key_perplexity"),
        [("good", 4, 1, 0.25, round(math.exp(0.1), 4)), ("bad", 4, 0, 0.0, None)],
    ),
    "intervention_effect": (
        [],
        ("model_id", "base_id", "from_position", "tokens", "nll_added"),
        [("bad", "good", 1, 2, 1.0), ("bad", "good", 2, 2, 1.0), ("bad", "good", 4, 4, 1.9)],
    ),
    "tokenizers": (
        [],
        ("tokenizer", "prepends_bos", "models", "characters_per_token", "model_ids"),
        [("01234567", True, 2, 1.0, "bad, good")],
    ),
    "entropy": (
        [],
        ("model_id", "tokens", "nll", "entropy", "excess"),
        [("good", 8, 0.55, 1.0, -0.45), ("bad", 8, 2.0, 1.0, 1.0)],
    ),
    "target_scores": (
        [],
        ("model_id", "task", "items", "contexts", "score", "stderr"),
        [("good", "recall_8", 4, 2, 0.75, 0.25), ("bad", "recall_8", 4, 2, 0.25, 0.25)],
    ),
    "metric_leaders": (
        [],
        ("variant", "model_id", "value"),
        [("per_token", "good", 1.5), ("per_token", "bad", 7.5)],
    ),
}


def build_mart(workspace: Workspace) -> None:
    """Stand in for `dbt build`: a mart whose view reads from its own catalog."""
    workspace.database.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(workspace.database)) as connection:
        connection.execute(
            "create table metric_values as select * from (values"
            " ('minilong', 'perplexity', 'per_token', 'good', 1.5, 8, 1),"
            " ('minilong', 'perplexity', 'per_token', 'bad', 7.5, 8, 1))"
            " t(problem, metric, variant, model_id, value, tokens, documents)"
        )
        connection.execute("create schema main_staging")
        name = f'"{workspace.database.stem}"."main"."metric_values"'
        connection.execute(f"create view main_staging.stg_values as select * from {name}")


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_cookbook_answer_worked_by_hand(filled: Workspace, name: str) -> None:
    params, columns, expected = EXPECTED[name]
    if name == "metric_leaders":
        build_mart(filled)
    rows = ask("--name", name, *(part for p in params for part in ("--param", p)))
    assert rounded(rows, *columns) == expected


def test_every_cookbook_query_is_tested_and_described() -> None:
    queries = list_queries()
    assert len(queries) >= 20
    assert {query.name for query in queries} == set(EXPECTED)
    for query in queries:
        assert query.title
        for parameter in query.parameters:
            assert parameter.meaning, f"{query.name}: say what {parameter.name} means"
            assert f"${parameter.name}" in query.sql, f"{query.name}: unused {parameter.name}"


def test_cookbook_queries_run_before_anything_is_extracted(workspace: Workspace) -> None:
    for query in list_queries():
        if query.name != "metric_leaders":
            assert ask("--name", query.name) == []
    ensure_tables(workspace)
    assert ask("--name", "coverage") == []


def test_the_list_shows_parameters_and_the_sql_can_be_read(workspace: Workspace) -> None:
    listed = CliRunner().invoke(cli, ["sql", "--list"]).output
    assert "perplexity: Perplexity and bits per byte" in listed
    assert "--param short=window_512  the short-context probe" in listed
    assert "sum(nll)" in CliRunner().invoke(cli, ["sql", "--name", "perplexity", "--show"]).output


# Tables and marts


def test_views_hold_what_was_extracted(filled: Workspace) -> None:
    counts = {
        name: ask(f"select count(*) as n from {name}")[0]["n"]
        for name in ("tokens", "documents", "models", "units", "downstream")
    }
    assert counts == {"tokens": 32, "documents": 1, "models": 2, "units": 9, "downstream": 8}


def test_views_have_the_same_columns_with_and_without_files(
    workspace: Workspace,
) -> None:
    def columns() -> dict[str, list[tuple[str, str]]]:
        with connect_for_queries(workspace) as connection:
            return {
                name: [row[:2] for row in connection.execute(f"describe {name}").fetchall()]
                for name in ("tokens", "documents", "models", "units", "downstream")
            }

    before = columns()
    ensure_tables(workspace)
    assert columns() == before
    assert ("logprob", "FLOAT") in before["tokens"]


def test_marts_and_tokens_meet_in_one_query(filled: Workspace) -> None:
    build_mart(filled)
    rows = ask(
        "select v.value, count(*) as n from metric_values v join tokens t using (model_id)"
        " join stg_values using (model_id) group by all order by 1"
    )
    assert rows == [{"value": 1.5, "n": 16}, {"value": 7.5, "n": 16}]


def test_reading_marts(workspace: Workspace) -> None:
    with pytest.raises(StorageError, match=r"no warehouse yet; run `tokenmart dbt build`"):
        connect_read_only(workspace)
    build_mart(workspace)
    with connect_read_only(workspace) as connection:
        assert connection.execute("select count(*) from stg_values").fetchall() == [(2,)]
        with pytest.raises(duckdb.Error, match="read-only"):
            connection.execute("create table x as select 1")
    workspace.database.write_bytes(b"not a database" * 1000)
    with pytest.raises(StorageError, match=r"can't be opened .* delete it and run"):
        connect_read_only(workspace)


def test_a_writer_is_waited_for_then_named(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_mart(workspace)
    code = (
        "import duckdb, sys, time; c = duckdb.connect(sys.argv[1]); print('open', flush=True);"
        " sys.stdin.readline(); c.close()"
    )
    command = [sys.executable, "-c", code, str(workspace.database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdin and writer.stdout
        writer.stdout.readline()
        monkeypatch.setattr("warehouse.database.PATIENCE_SECONDS", 0.3)
        for connect in (connect_read_only, connect_for_queries):
            with pytest.raises(StorageError, match="try again when dbt has finished"):
                connect(workspace)
        writer.stdin.write(b"\n")
        writer.stdin.flush()
        monkeypatch.setattr("warehouse.database.PATIENCE_SECONDS", 30)
        connect_read_only(workspace).close()


# Output


def test_formats_agree(filled: Workspace, tmp_path: Path) -> None:
    query = "select position, -logprob as nll from tokens where model_id = 'good' order by all"
    expected = ask(query)
    assert len(expected) == 16
    for ending in ("json", "csv", "parquet"):
        out = tmp_path / f"rows.{ending}"
        result = CliRunner().invoke(cli, ["sql", query, "--out", str(out)])
        assert (result.exit_code, result.output) == (0, "")
    assert json.loads((tmp_path / "rows.json").read_text()) == expected
    table = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    assert [row["position"] for row in table] == [row["position"] for row in expected]
    with (tmp_path / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["nll"]) for row in rows] == [row["nll"] for row in expected]


def test_a_table_is_cut_with_a_notice(filled: Workspace) -> None:
    result = CliRunner().invoke(cli, ["sql", "select position from tokens", "--limit", "3"])
    assert len(result.stdout.splitlines()) == 2 + 3
    assert result.stderr == "only 3 rows shown; --limit 0 shows all, --out saves all\n"
    whole = CliRunner().invoke(cli, ["sql", "select position from tokens", "--limit", "0"])
    assert len(whole.stdout.splitlines()) == 2 + 32
    assert whole.stderr == ""


def test_a_table_is_readable(workspace: Workspace) -> None:
    query = "select 'a\nb' as text, 1.5 as number, null as nothing union all select 'cc', 22, 1"
    shown = CliRunner().invoke(cli, ["sql", query]).stdout
    assert shown.splitlines() == [
        "text  number  nothing",
        "────  ──────  ───────",
        "a\\nb     1.5",
        "cc        22        1",
    ]


def test_no_rows_is_said(workspace: Workspace) -> None:
    shown = CliRunner().invoke(cli, ["sql", "select position from tokens"]).stdout
    assert shown.splitlines() == ["position", "────────", "(no rows)"]


def test_json_has_no_nan(workspace: Workspace) -> None:
    rows = ask("select 'nan'::double as a, ['inf'::double, 1] as b, date '2026-01-02' as c")
    assert rows == [{"a": None, "b": [None, 1.0], "c": "2026-01-02"}]


def test_parquet_needs_a_file(workspace: Workspace) -> None:
    assert "give the file with --out" in failure("select 1", "--format", "parquet")[1]


def test_sql_from_a_file_and_with_parameters(filled: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_text("create macro twice(x) as 2 * x;\nselect twice($n) as a, $t as b;")
    assert ask("--file", str(path), "--param", "n=21", "--param", "t=x=y") == [
        {"a": 42, "b": "x=y"}
    ]
    assert "can't be read" in failure("--file", str(tmp_path / "none.sql"))[1]


# Mistakes


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select logprb from tokens", 'Candidate bindings: "logprob"'),
        ("select * from tokns", 'Did you mean "tokens"?'),
        ("select * from metric_values", "metric tables appear after `tokenmart dbt build`"),
        ("selct 1", "at `selct 1`"),
        ("select 1 +", "syntax error"),
        ("", "no statement given"),
        ("select $a", "--param a=…: the query needs a value for $a"),
        ("select 1/0::varchar::date", "sql: "),
    ],
)
def test_a_mistake_is_one_line(workspace: Workspace, query: str, message: str) -> None:
    code, output = failure(query)
    assert code == 1
    assert message in output
    assert output.count("\n") == 1
    assert output.startswith("error: ")


def test_parameters_are_checked(workspace: Workspace) -> None:
    assert (
        "the query has no $b; it has: a"
        in failure("select $a", "--param", "a=1", "--param", "b=1")[1]
    )
    assert failure("select 1", "--param", "novalue")[0] == 2
    assert failure("select 1", "--name", "cost")[0] == 2
    assert failure()[0] == 2
    assert "did you mean 'coverage'?" in failure("--name", "coverge")[1]
    assert "see tokenmart sql --list" in failure("--name", "../secret")[1]


@pytest.mark.parametrize(
    "statement",
    [
        "copy (select 1) to '{place}'",
        "export database '{place}'",
        "attach '{place}' as other",
        "install httpfs",
        "select 1; copy (select 1) to '{place}'",
        "drop view tokens",
        "insert into metric_values select * from metric_values",
        "create table tokenmart.main.x as select 1",
        "update metric_values set value = 0",
    ],
)
def test_nothing_is_written(filled: Workspace, tmp_path: Path, statement: str) -> None:
    build_mart(filled)
    place = tmp_path / "written"
    assert "read-only" in failure(statement.format(place=place))[1]
    assert not place.exists()
    assert len(ask("select * from metric_values")) == 2


def test_a_damaged_parquet_file_is_named(filled: Workspace) -> None:
    path = published_path(filled, "minilong", "good", "full")
    path.write_bytes(path.read_bytes()[:-20])
    code, output = failure("select sum(logprob) from tokens")
    assert code == 4
    assert output.startswith(f"error: {path}: damaged")
    assert "run tokenmart extract again" in output


def test_it_starts_fast_and_without_torch(filled: Workspace) -> None:
    build_mart(filled)
    code = (
        "import sys; from tokenmart import cli\n"
        "cli(['sql', 'from metric_values join models using (model_id)'], standalone_mode=False)\n"
        "print([m for m in ('torch', 'transformers', 'dbt', 'rich') if m in sys.modules])"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0
