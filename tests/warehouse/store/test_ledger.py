"""A unit's record and the schema of the ledger are one thing, and files say their version."""

from __future__ import annotations

import datetime
from dataclasses import asdict, replace

import pyarrow as pa
import pytest
from refusal import refuses
from warehouse_samples import KEYS, make_rows, make_unit

from warehouse.sql.connection import connect_to_parquet
from warehouse.sql.session import Session
from warehouse.store.ledger import DECIDED, UNITS, content_sha256, read_units, with_units
from warehouse.store.parquet_files import write_table
from warehouse.store.schema import SCHEMA_KEY, SCHEMA_VERSION, TOKENS
from warehouse.store.token_files import finished_units, publish, published_path, write_unit


def test_records_are_read_back_in_the_types_of_the_ledger(workspace):
    """What they have in common is written once."""
    units = []
    for doc_id in range(3):
        rows = make_rows(doc_id, 10)
        made = replace(make_unit(doc_id, rows), seed=2**40, seconds=0.1 + doc_id)
        units.append(replace(made, reason=f'é "{doc_id}"'))
        write_unit(workspace, units[-1], rows)
    publish(workspace, *KEYS)
    path = published_path(workspace, *KEYS)
    assert path.read_bytes().count(b'"transformers_version"') == 1
    with connect_to_parquet(workspace) as connection:
        table = connection.sql("from units order by doc_id").to_arrow_table()
    assert table.schema.names == [*UNITS.names, *DECIDED.names]
    finished = datetime.datetime.fromisoformat(units[0].finished_at)
    found = table.select(UNITS.names).cast(UNITS).to_pylist()
    assert found == [{**asdict(unit), "finished_at": finished} for unit in read_units(path)]
    assert [row["reason"] for row in found] == [unit.reason for unit in units]


@pytest.mark.parametrize("version", [None, "1", str(SCHEMA_VERSION - 1), str(SCHEMA_VERSION + 1)])
def test_a_file_of_another_version_is_refused_by_every_reader(workspace, version):
    path = published_path(workspace, *KEYS)
    rows = make_rows(0, 10)
    table = rows.cast(with_units(TOKENS, [make_unit(0, rows)]))
    assert table.schema.metadata[SCHEMA_KEY] == str(SCHEMA_VERSION).encode()
    metadata = {**table.schema.metadata, SCHEMA_KEY: (version or "").encode()}
    if version is None:
        table, metadata = rows, {}
    write_table(path, table.replace_schema_metadata(metadata))
    for read in (
        lambda: read_units(path),
        lambda: finished_units(workspace, *KEYS),
        lambda: Session(workspace),
    ):
        with refuses("damaged-file", str(path)):
            read()


def test_a_checksum_reads_each_column_that_has_a_value():
    """Nulls throughout count as no column, a null among values does not."""
    rows = make_rows(0, 10)
    at = rows.schema.get_field_index("entropy")

    def checksum(*values: float | None) -> str:
        column = pa.array([*values, *values[1:] * 8][:10], pa.float32())
        return content_sha256(rows.set_column(at, rows.schema.field(at), column))

    values = [(1.0, 1.0), (None, 1.0), (None, 2.0), (None, None)]
    assert len({checksum(*each) for each in values}) == len(values)
    assert checksum(None, None) == content_sha256(rows.drop_columns(["entropy"]))
