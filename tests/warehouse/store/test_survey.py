"""Foreign and damaged files are named by every reader, and no number comes from a foreign one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tokenmart import cli
from warehouse.paths import Workspace
from warehouse.sources.document_files import Document
from warehouse.sources.documents import documents_table
from warehouse.store.ledger import read_units
from warehouse.store.parquet_files import DATA_KEY, altered_files, write_table
from warehouse.store.survey import survey
from warehouse.store.token_files import published_path, read_rows, write_units

pytestmark = pytest.mark.hostile

ROOT = Path(__file__).parents[3]
COUNT = "select count(*) as n from tokens"


def foreign(path: Path) -> Path:
    other = path.parent / "copy.parquet"
    shutil.copy(path, other)
    return other


def beside_the_folders(path: Path) -> Path:
    other = path.parents[3] / "tokens.parquet"
    shutil.copy(path, other)
    return other


def without_ledger(path: Path) -> Path:
    pq.write_table(pq.read_table(path, partitioning=None).replace_schema_metadata(None), path)
    return path


def without_a_column(path: Path) -> Path:
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.drop_columns(["rank"]), path)
    return path


def with_another_column(path: Path) -> Path:
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.append_column("logits", table["rank"]), path)
    return path


def with_another_type(path: Path) -> Path:
    table = pq.read_table(path, partitioning=None)
    place = table.schema.get_field_index("rank")
    pq.write_table(table.set_column(place, "rank", table["rank"].cast(pa.string())), path)
    return path


def with_more_rows(path: Path) -> Path:
    table = pq.read_table(path, partitioning=None)
    pq.write_table(pa.concat_tables([table, table]), path)
    return path


def of_another_problem(path: Path) -> Path:
    other = Path(str(path).replace("problem=minilong", "problem=mine"))
    other.parent.mkdir(parents=True)
    shutil.copy(path, other)
    return other


def of_another_model(path: Path) -> Path:
    other = Path(str(path).replace("model_id=good", "model_id=stranger"))
    other.parent.mkdir(parents=True)
    shutil.copy(path, other)
    return other


def truncated(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-20])
    return path


def empty(path: Path) -> Path:
    path.write_bytes(b"")
    return path


def another_format(path: Path) -> Path:
    path.write_text("model,token\ngood,1\n")
    return path


def flipped_footer(path: Path) -> Path:
    data = bytearray(path.read_bytes())
    place = data.index(b'"seconds":') + len(b'"seconds":')
    data[place] ^= 1
    path.write_bytes(data)
    return path


def documents_of_another_shape(path: Path) -> Path:
    other = path.parents[4] / "documents" / "problem=mine" / "documents.parquet"
    other.parent.mkdir(parents=True)
    pq.write_table(pa.table({"doc_id": [0], "text": ["mine"]}), other)
    return other


LEFT_OUT: dict[Callable[[Path], Path], tuple[str, int]] = {
    foreign: ("it is not a file of Tokenmart", 32),
    beside_the_folders: ("it is not a file of Tokenmart", 32),
    without_ledger: ("no ledger lists it", 24),
    without_a_column: ("wrong columns (lacks rank)", 24),
    with_another_column: ("wrong columns (has logits)", 24),
    with_another_type: ("column rank is string, not int32", 24),
    of_another_problem: ('its ledger is of "problem minilong"', 32),
    of_another_model: ('its ledger is of "model_id good"', 32),
    documents_of_another_shape: ("wrong columns (lacks", 32),
}
DAMAGED: dict[Callable[[Path], Path], str] = {
    with_more_rows: "16 rows, but its ledger has 8",
    truncated: "damaged or no Parquet file",
    empty: "damaged or no Parquet file",
    another_format: "damaged or no Parquet file",
    flipped_footer: "records of its ledger were altered",
}


def refused_by_dbt(workspace: Workspace) -> str:
    plugin = pytest.importorskip("warehouse.metrics.dbt_plugin").Plugin("tokenmart", {})
    from dbt_common.exceptions import DbtRuntimeError

    with duckdb.connect() as connection, pytest.raises(DbtRuntimeError) as refusal:
        plugin.configure_connection(connection)
    return str(refusal.value)


def test_what_extraction_wrote_is_not_strange(filled: Workspace) -> None:
    assert survey(filled.data) == []


def test_a_file_written_before_a_nullable_column_was_added_is_read_with_nulls(
    filled: Workspace,
) -> None:
    for problem in ("minilong", "later"):
        path = filled.documents / f"problem={problem}" / "documents.parquet"
        if problem == "minilong":
            table = pq.read_table(path, partitioning=None).drop_columns(["document_group"])
        else:
            table = documents_table([Document("b", "two", "web")])
        write_table(path, table)
    assert survey(filled.data) == []
    query = "select problem, name, document_group from documents order by problem"
    answer = CliRunner().invoke(cli, ["sql", query, "--format", "csv"])
    assert answer.stderr == ""
    rows = ["problem,name,document_group", "later,b,web", "minilong,a.txt,"]
    assert answer.stdout.splitlines() == rows


@pytest.mark.parametrize("make", LEFT_OUT, ids=lambda make: make.__name__)
def test_a_foreign_file_is_named_and_not_counted(
    filled: Workspace, make: Callable[[Path], Path]
) -> None:
    path = make(published_path(filled, "minilong", "good", "full"))
    why, rows = LEFT_OUT[make]
    answer = CliRunner().invoke(cli, ["sql", COUNT, "--format", "csv"])
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.splitlines() == ["n", str(rows)]
    (warning,) = answer.stderr.splitlines()
    assert warning.startswith(f"warning: {path}: not counted, ")
    assert why in warning
    assert f"{path}: not counted" in refused_by_dbt(filled)


@pytest.mark.parametrize("make", DAMAGED, ids=lambda make: make.__name__)
def test_a_damaged_file_is_named_before_any_number(
    filled: Workspace, make: Callable[[Path], Path]
) -> None:
    path = make(published_path(filled, "minilong", "good", "full"))
    answer = CliRunner().invoke(cli, ["sql", "select sum(nll) as n from tokens"])
    warning = answer.stderr.splitlines()[0]
    assert warning.startswith(f"warning: {path}: ")
    assert DAMAGED[make] in warning
    assert str(path) in refused_by_dbt(filled)


def test_marts_are_not_emptied_when_the_data_is_gone(filled: Workspace) -> None:
    filled.database.parent.mkdir(parents=True)
    plugin = pytest.importorskip("warehouse.metrics.dbt_plugin").Plugin("tokenmart", {})
    from dbt_common.exceptions import DbtRuntimeError

    with duckdb.connect(str(filled.database)) as connection:
        connection.execute("create table metric_values as select 1.5 as value, 3 as tokens")
        plugin.configure_connection(connection)
        shutil.rmtree(filled.tokens)
        with pytest.raises(DbtRuntimeError, match=r"no token files, but .* set TOKENMART_DATA"):
            plugin.configure_connection(connection)
        connection.execute("delete from metric_values")
        plugin.configure_connection(connection)


def flip(path: Path, place: int) -> None:
    """Turn one bit of a file, and leave its size and time as they were."""
    stat = path.stat()
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize("table", ["tokens", "documents", "models", "downstream"])
def test_a_flipped_bit_stops_dbt_and_is_named(filled: Workspace, table: str) -> None:
    path = sorted((filled.data / table).rglob("*.parquet"))[0]
    size = json.loads(pq.read_metadata(path).metadata[DATA_KEY])["bytes"]
    assert altered_files([path]) == []
    for place in (4, size // 2, size - 1):
        whole = path.read_bytes()
        flip(path, place)
        assert altered_files([path]) == [path]
        said = refused_by_dbt(filled)
        assert f"{path}: its data are not the bytes that were written" in said
        assert "tokenmart data check" in said and "then build again" in said
        path.write_bytes(whole)
    assert survey(filled.data, every_byte=True) == []


def test_files_of_earlier_versions_have_no_hash_and_are_not_accused(
    filled: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = published_path(filled, "minilong", "good", "full")
    monkeypatch.setattr("warehouse.store.parquet_files.data_record", lambda *_: {})
    write_units(path, read_units(path), [read_rows(path)])
    assert DATA_KEY not in pq.read_metadata(path).metadata
    assert survey(filled.data, every_byte=True) == []
    path.write_bytes(b"no Parquet")
    assert altered_files([path, path.with_name("gone.parquet")]) == []


def test_status_names_foreign_files_of_the_problem(filled: Workspace) -> None:
    shutil.copy(ROOT / "data" / "problems" / "minilong.yml", filled.problems)
    path = foreign(published_path(filled, "minilong", "good", "full"))
    shown = CliRunner().invoke(cli, ["status", "--problem", "minilong"])
    assert shown.exit_code == 0, shown.output
    assert f"warning: {path}: not counted, it is not a file of Tokenmart" in shown.stderr
