"""Hostile SQL: nothing is written, read from elsewhere, loaded or waited for."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from sql_samples import ask, build_mart, failure

from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.sql.dataframes import query
from warehouse.sql.session import Limits, OverTimeError
from warehouse.sql.statements import _FUNCTIONS
from warehouse.store.token_files import published_path

pytestmark = pytest.mark.hostile

TOKENMART = Path(sys.executable).with_name("tokenmart")

# {new}: a file that must not appear; {own}: a published token file; {secret}: a file elsewhere
HOSTILE = [
    "set log_query_path = '{new}'",
    "set global log_query_path to '{own}'",
    "pragma profiling_output = '{new}'",
    "set profiling_output = '{own}'",
    "set temp_directory = '{new}'",
    "set lock_configuration = false",
    "reset allowed_directories",
    "import database '{folder}'",
    "pragma import_database('{folder}')",
    "export database '{new}'",
    "create persistent secret s (type http, bearer_token 'x')",
    "create or replace secret s in local_file (type http, bearer_token 'x')",
    "call enable_logging('QueryLog', storage = 'file', storage_path = '{new}')",
    "from enable_logging('QueryLog', storage = 'file', storage_path = '{store}/log')",
    "from system.main.\"Enable_Logging\" /* ( */ (storage_path = '{new}')",
    "from query('from enable_logging(storage_path = ''{new}'')')",
    "copy (select 1) to '{own}' (format parquet)",
    "copy (pivot (select 1 as a, 2 as b) on a using sum(b)) to '{own}'",
    "with p as (copy (select 1) to '{own}') from p",
    "with p as not materialized (/* x */ ((CoPy (select 1) to '{new}'))) select * from p",
    "create table t as with p as (copy (select 1) to '{new}') from p",
    "explain analyze copy (select 1) to '{own}'",
    "/* select */ explain (analyze, format json) copy (select 1) to '{new}'",
    "select 1; copy (select 1) to '{new}'",
    "attach '{new}' as other",
    "attach '{store}/new.duckdb'",
    "install httpfs",
    "load httpfs",
    "load '{own}'",
    "update extensions",
    "copy from database tokenmart to memory",
    "insert into metric_values select * from metric_values",
    "with p as (delete from metric_values returning *) from p",
    "create or replace table tokenmart.main.metric_values as select 1",
    "checkpoint",
    "from force_checkpoint()",
    "prepare p as copy (select 1) to '{new}'",
    "from read_text('{secret}')",
    "from read_csv('{secret}')",
    "from '{secret}'",
    "from glob('{folder}/*')",
    "from read_parquet('{store}/../../../secret.parquet')",
    "from sniff_csv('{secret}')",
    "from read_blob('https://example.org/')",
    "create macro peek() as table from read_text('{secret}'); from peek()",
    "select getenv('HOME')",
    "from arrow_scan(1, 2, 3)",
    "from python_arrow_scan(1, 2, 3)",
    "from read_duckdb('{folder}/new.duckdb')",
    "from json_execute_serialized_sql(json_serialize_sql("
    "'with p as (copy (select 1) to ''{own}'') from p'))",
    "from query('from json_execute_ser' || 'ialized_sql(json_serialize_sql("
    "''with p as (co' || 'py (select 1) to {own}) from p''))')",
    'create macro peek() as table from system.main."JSON_Execute_Serialized_SQL" /* x */ ('
    "json_serialize_sql('with p as (copy (select 1) to ''{own}'') from p')); from peek()",
    "pragma json_execute_serialized_sql('x')",
    "from register_external_resource_type('a', 'b', 'c', 'd', 'e', 'f', 'g')",
    "explain analyze with p as (copy (select 1) to '{own}') from p",
    "explain analyze call enable_logging('QueryLog', storage_path = '{new}')",
    "explain analyze set threads = 100000",
    "with p as (with q as (copy (select 1) to '{own}') from q) from p",
    "from (pivot (with p as (copy (select 1 as a) to '{own}') from p) on a)",
    "import database '{store}'",
]
ENDLESS = [
    "select count(*) from range(1000000000) a, range(1000000000) b where hash(a.range) = b.range",
    "with recursive n as (select 1 as x union all select x + 1 from n) select count(*) from n",
    "select sum(hash(range)) from range(1000000000000)",
]
MISSHAPEN = [
    "select " + "(" * 20_000 + "1" + ")" * 20_000,
    "select " + "+".join(["1"] * 40_000),
    "select 1 where " + " or ".join(["1 = 1"] * 100_000),
    "select '\0",
    "select '\ud800'",
    'select "',
    "$$",
    "/* /*",
    "explain (",
    "with p as (",
    "create",
    "set",
    ";;;",
]


def everything(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def guarded(filled: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A warehouse, a home folder and a secret; what the hostile statements name."""
    build_mart(filled)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    secret = tmp_path / "secret.txt"
    secret.write_text("a,b\nhidden,1\n")
    (tmp_path / "schema.sql").write_text("create table hidden as select 1;")
    (tmp_path / "load.sql").write_text("")
    return {
        "new": str(tmp_path / "new"),
        "own": str(published_path(filled, "minilong", "good", "full")),
        "store": str(filled.tokens),
        "folder": str(tmp_path),
        "secret": str(secret),
    }


@pytest.mark.parametrize("statement", HOSTILE)
def test_hostile_sql_is_one_line_and_leaves_no_trace(
    guarded: dict[str, str], tmp_path: Path, statement: str
) -> None:
    sql = statement.format(**guarded)
    before = everything(tmp_path)
    result = CliRunner().invoke(cli, ["sql", sql])
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.output.startswith("error: sql: ")
    assert result.output.count("\n") == 1
    assert "hidden" not in result.output.replace(sql, "")
    with pytest.raises(TokenmartError):
        query(sql)
    assert everything(tmp_path) == before
    assert len(ask("from metric_values")) == 2


@pytest.mark.parametrize("statement", MISSHAPEN, ids=range(len(MISSHAPEN)))
def test_misshapen_sql_is_one_line(workspace: Workspace, statement: str) -> None:
    code, output = failure(statement)
    assert code == 1
    assert output.startswith("error: sql: ")
    assert output.count("\n") == 1
    with pytest.raises(TokenmartError):
        query(statement)


@pytest.mark.parametrize("statement", ENDLESS)
def test_a_query_is_stopped_when_its_time_is_over(workspace: Workspace, statement: str) -> None:
    for arguments in ((), ("--format", "csv")):
        code, output = failure(statement, "--timeout", "0.3", *arguments)
        assert (code, output.count("\n")) == (1, 1)
        assert output.startswith("error: sql: stopped after 0.3 seconds; give it more with")
    with pytest.raises(OverTimeError, match=r"stopped after 0\.3 seconds"):
        query(statement, "arrow", Limits(seconds=0.3))


def test_memory_is_limited(workspace: Workspace) -> None:
    greedy = "select length(string_agg(repeat('x', 1000000), '')) as n from range(200)"
    code, output = failure(greedy, "--memory", "100MiB")
    assert code == 1
    assert output.startswith("error: sql: Out of Memory Error")
    assert output.count("\n") == 1
    assert ask(greedy, "--memory", "2GiB") == [{"n": 200_000_000}]
    assert failure("select 1", "--memory", "much")[1] == (
        "error: --memory much: not a size; give one such as 4GiB or 800MiB\n"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such bound")
@pytest.mark.parametrize(
    "greedy",
    [
        "select len(range(1, 1000000000)) as n",
        "select count(*) as n from (select unnest(range(1000000000)))",
    ],
)
def test_long_lists_count_against_the_memory_too(workspace: Workspace, greedy: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    code, output = failure(greedy, "--memory", "1GiB")
    assert (code, output.count("\n")) == (1, 1)
    assert output.startswith("error: sql: Out of Memory Error")
    assert "give it more with --memory" in output
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert ask("select len(range(1, 1000)) as n") == [{"n": 999}]


# It computes one value: DuckDB never looks whether it was interrupted.
UNSTOPPABLE = "select levenshtein(repeat('a', 1000000), repeat('b', 1000000))"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("arguments", [(), ("--format", "json")])
def test_a_query_that_hears_no_interrupt_ends_with_the_process(
    workspace: Workspace, arguments: tuple[str, ...]
) -> None:
    command = [TOKENMART, "sql", UNSTOPPABLE, "--timeout", "0.5", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: sql: stopped after 0.5 seconds")
    assert done.stderr.count("\n") == 1
    with subprocess.Popen(command[:3], stderr=subprocess.PIPE, text=True) as process:
        _wait_until_busy(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.stderr
        assert "interrupted" in process.stderr.read()
        assert process.wait(30) != 0


def _wait_until_busy(pid: int, seconds: float = 60) -> None:
    """Until the process computes for longer than its start takes."""
    deadline = time.monotonic() + seconds
    ticks = os.sysconf("SC_CLK_TCK")
    while time.monotonic() < deadline:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if (int(fields[11]) + int(fields[12])) / ticks > 3:
            return
        time.sleep(0.05)
    raise AssertionError("the query never began")


# each in one shell, where what came before it stays
IN_THE_SHELL = [
    "begin transaction",
    "use memory",
    "set schema = 'tokenmart.main'",
    "delete from metric_values",
    "truncate metric_values",
    "merge into metric_values using (select 1) on false when not matched then insert values (1)",
    "alter table metric_values add column x int",
    "comment on table metric_values is 'x'",
    "create type mood as enum ('a')",
    "create sequence tokenmart.main.s",
    "create index i on metric_values(value)",
    "drop schema main cascade",
    "vacuum",
    "detach tokenmart",
    "attach ':memory:' as other",
    "set variable x = (select content from read_text('{secret}'))",
    "from 'file://{secret}'",
    "from parquet_scan('{secret}')",
    "from read_json('{secret}')",
    "from query_table(['read_text', '{secret}'])",
    "summarize '{secret}'",
    "set threads = 100000",
    "set memory_limit = '1TB'",
    "select * from tokens tablesample reservoir(1000000000)",
    "commit",
]


# They end with the question, or touch what is in memory only.
HARMLESS = {"use memory", "set schema = 'tokenmart.main'", "create type mood as enum ('a')"}


def test_no_earlier_statement_opens_a_file(guarded: dict[str, str], tmp_path: Path) -> None:
    before = everything(tmp_path)
    lines = [f"{statement.format(**guarded)};" for statement in IN_THE_SHELL]
    done = CliRunner().invoke(cli, ["sql"], input="\n".join(lines))
    assert done.exit_code == 0
    assert "hidden" not in done.output.replace(guarded["secret"], "")
    errors = done.stderr.splitlines()
    assert len(errors) == len(lines) - len(HARMLESS)
    assert all(line.startswith("error: sql: ") for line in errors)
    assert everything(tmp_path) == before
    assert len(ask("from metric_values")) == 2


# What a locked database leaves to these was looked at: they read the catalogue, memory, or files of
# the warehouse; or they change a setting or open a file elsewhere, which is refused.
KNOWN_FUNCTIONS = """
    add_parquet_key all_profiling_output arrow_scan arrow_scan_dumb checkpoint collations
    copy_database database_list database_size extension_versions force_checkpoint functions
    generate_series glob icu_calendar_names import_database json_each json_tree metadata_info
    pandas_scan parquet_bloom_probe parquet_file_metadata parquet_full_metadata
    parquet_kv_metadata parquet_metadata parquet_scan parquet_schema pg_timezone_names platform
    python_arrow_scan python_map_function query_table range read_blob read_csv read_csv_auto
    read_duckdb read_json read_json_auto read_json_objects read_json_objects_auto read_ndjson
    read_ndjson_auto read_ndjson_objects read_parquet read_single_csv_file read_single_json_file
    read_single_parquet_file read_text repeat repeat_row seq_scan show show_databases show_tables
    show_tables_expanded sniff_csv storage_info summary table_info test_all_types
    test_vector_types truncate_duckdb_logs unnest user_agent verify_external verify_fetch_row
    verify_parallelism verify_serializer version which_secret
"""


def test_no_function_is_new(workspace: Workspace) -> None:
    """A table function of a newer DuckDB is looked at before it can be called: does it run SQL
    from a text (`_FUNCTIONS`), or write a file in a folder it may read?"""
    found = ask(
        "select distinct function_name as name from duckdb_functions()"
        " where function_type in ('table', 'pragma') and internal"
        " and function_name not like 'duckdb\\_%' escape '\\'"
        " and function_name not like 'pragma\\_%' escape '\\'"
    )
    names = {row["name"] for row in found}
    assert {name for name in names if not _FUNCTIONS.fullmatch(name)} <= set(
        KNOWN_FUNCTIONS.split()
    )


def test_copy_as_a_name_is_quoted(workspace: Workspace) -> None:
    assert ask('select "copy", \'copy\' as c from (select 1 as "copy") -- copy') == [
        {"copy": 1, "c": "copy"}
    ]
    assert 'A column of this name: "copy"' in failure("select copy from (select 1 as copy)")[1]


def test_what_is_allowed(filled: Workspace) -> None:
    build_mart(filled)
    for statement in (
        "describe tokens",
        "show tables",
        "summarize select logprob from tokens",
        "values (1)",
        "table models",
        "pivot (select 1 as a, 2 as b) on a using sum(b)",
        "from (pivot (select 1 as a, 2 as b) on a using sum(b))",
        "unpivot (select 1 as a) on a",
        "explain select 1",
        "explain (analyze) from tokens",
        "set TimeZone = 'Europe/Berlin'; select now()",
        "set variable wanted = 'good'; from models where model_id = getvariable('wanted')",
        "create temp table mine as (select 1 as a); from mine",
        "create temp view mine as with x as (select 1) from x; from mine",
        "create or replace temp macro half(x) as (x / 2); select half(2)",
        "select sum(logprob) over w from tokens window w as (partition by model_id)",
        "from range(3), unnest([1, 2])",
        "from parquet_metadata('{own}')",
        "from read_parquet('{own}') limit 1",
        "select count(*) as query, 'copy (select 1) to x; from read_text(1)' as glob -- load x",
        "from duckdb_tables()",
    ):
        own = published_path(filled, "minilong", "good", "full")
        result = CliRunner().invoke(cli, ["sql", statement.format(own=own)])
        assert result.exit_code == 0, f"{statement}: {result.output}"
    assert ask("set variable n = 2; select getvariable('n') as n") == [{"n": 2}]
