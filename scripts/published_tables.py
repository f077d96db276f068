"""Write data/published/ from clones of the repositories that published the scores.

    python scripts/published_tables.py FOLDER

FOLDER has clones of the repositories that `data/published/sources.json` names (bare or not), each
in a folder of the repository's name and with its commit; tables of other repositories are kept. A
table is the result of its SQL in `scripts/published/`, which reads the clone's files, and has the
columns of a plain table of scores. `sources.json` gets rows, bytes and sha256.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import click
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from warehouse.files import replacing, sha256_file, write_whole

PUBLISHED = Path(__file__).parents[1] / "data" / "published"
QUERIES = Path(__file__).parent / "published"
COMPRESSION_LEVEL = 19

SCHEMA = pa.schema(
    [
        ("model", pa.string()),
        ("size", pa.string()),
        ("family", pa.string()),
        ("recipe", pa.string()),
        ("architecture", pa.string()),
        ("parameters", pa.int64()),
        ("step", pa.int64()),
        ("tokens", pa.float64()),
        ("benchmark", pa.string()),
        ("metric", pa.string()),
        ("document", pa.string()),
        ("direction", pa.string()),
        ("score", pa.float64()),
        ("stderr", pa.float64()),
    ]
)


def read_source(clone: Path, source: dict[str, Any], query: str) -> pa.Table:
    """The rows of a query on the files of a source at its commit.

    Raises:
        CalledProcessError: the clone lacks the commit.
    """
    command = ["git", "-C", str(clone), "archive", source["commit"], *source["folders"]]
    content = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(content)) as tar:
        tar.extractall(folder, filter="data")
        os.chdir(folder)  # paths in queries are those of the clone
        try:
            return compact(duckdb.connect().sql(query).to_arrow_table())
        finally:
            os.chdir(here)


def compact(table: pa.Table) -> pa.Table:
    """The rows sorted, in the order of the schema; floats are float32 if this is exact."""
    schema = pa.schema([field for field in SCHEMA if field.name in table.schema.names])
    table = table.select(schema.names).cast(schema)
    order = ("benchmark", "metric", "model", "document", "tokens", "step")
    table = table.sort_by([(name, "ascending") for name in order if name in schema.names])
    for index, field in enumerate(schema):
        if field.name in ("score", "stderr"):
            column = table.column(index)
            narrow = pc.cast(column, pa.float32(), safe=False)
            if pc.all(pc.equal(pc.cast(narrow, pa.float64()), column)).as_py():
                table = table.set_column(index, pa.field(field.name, pa.float32()), narrow)
    return table


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--out", type=click.Path(path_type=Path), default=PUBLISHED, help="Write here.")
def main(folder: Path, out: Path) -> None:
    """Write the tables whose clones are in the folder."""
    out.mkdir(parents=True, exist_ok=True)
    record = json.loads((PUBLISHED / "sources.json").read_text("utf-8"))
    for name, source in record.items():
        clone = folder / source["repository"].rpartition("/")[2]
        if not clone.exists():
            continue
        table = read_source(clone, source, (QUERIES / f"{name}.sql").read_text("utf-8"))
        path = out / f"{name}.parquet"
        with replacing(path) as draft:
            pq.write_table(
                table, draft, compression="zstd", compression_level=COMPRESSION_LEVEL,
                row_group_size=len(table), store_schema=False,
            )  # fmt: skip
        source |= {"rows": len(table), "bytes": path.stat().st_size, "sha256": sha256_file(path)}
        click.echo(f"{path}: {source['rows']:,} rows, {source['bytes']:,} bytes")
    write_whole(out / "sources.json", json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
