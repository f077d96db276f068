"""What growth costs: builds of larger and larger made-up stores in little memory.

    python benchmarks/growth.py                                 # 10^7 and 10^8 rows
    python benchmarks/growth.py --rows 1000000 --units 1000 --output try.json   # a quick look

Every piece is one measurement, written to the output immediately; finished ones are skipped, so a
stopped run resumes. Pieces of each size: `write` the store, `build` (`dbt run` of all metrics)
under each of DuckDB's memory limits, `added`: nothing new and then one new
model, `pruned`: one model's rows against all. Then `units`: commands on a store of many small
units. Peak memory is the largest resident size of the process that builds. A piece notes the
machine's load when it began: with more than a few tenths it says little about time.
An output is of one machine. The tables of RESULTS.md and docs/explanation/cost.md are rewritten
from all that are called growth*.json.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import duckdb
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from growth_table import DOCUMENTS, committed_outputs, write_tables
from made_up_warehouse import Retrieval, Shape, Window, write_warehouse
from marked_tables import machine
from warehouse_scale import Bench, peak_memory, timed

from warehouse.files import write_whole
from warehouse.paths import Workspace, find_workspace
from warehouse.sql.connection import connect_read_only, connect_to_parquet

PROGRAM = find_workspace(Path(__file__)).root / "tokenmart.py"
TOKENS = 8192
OUTPUT = Path(__file__).with_name("growth.json")
ROWS_A_MODEL = 2.0 * DOCUMENTS * TOKENS
"""About as many: each document whole and in windows, and the answers of a retrieval probe."""

Figures = dict[str, float]


def shape_of(rows: int) -> Shape:
    """A store of about this number of rows: models grow with it, documents stay; small ones have
    fewer.
    """
    models = max(3, round(rows / ROWS_A_MODEL))
    documents = max(2, min(DOCUMENTS, round(rows / (2.0 * TOKENS * models))))
    return Shape(
        models=models,
        documents=documents,
        tokens=TOKENS,
        tokenizers=min(6, models),
        windows=(Window(TOKENS // 8, TOKENS // 32),),
        retrieval=Retrieval(excerpts=8, excerpt_tokens=64, answer_tokens=32, min_gap=512),
        vocabulary=30_000,
    )


@dataclass
class Growth:
    """The pieces measured so far, and where stores and figures lie."""

    folder: Path
    output: Path
    found: dict[str, Any]

    def measure(self, piece: str, call: Callable[..., Figures], *arguments: Any) -> None:
        """Measure a piece, unless it was measured; the output is written immediately."""
        if piece in self.found["pieces"]:
            click.echo(f"{piece}: measured already")
            return
        load = os.getloadavg()[0]
        figures = call(*arguments)
        self.found["pieces"][piece] = {**figures, "load_before": round(load, 2)}
        write_whole(self.output, json.dumps(self.found, indent=1) + "\n")
        shown = ", ".join(f"{name} {value:,.4g}" for name, value in figures.items())
        click.echo(f"{piece}: {shown}")

    def bench(self, name: str) -> Bench:
        """A checkout of its own in the folder."""
        bench = Bench(self.folder / name)
        if not bench.project.exists():
            source = find_workspace(Path(__file__)).dbt_project
            shutil.copytree(source, bench.project, ignore=shutil.ignore_patterns("target", "logs"))
        return bench

    def store(self, rows: int) -> tuple[Bench, Shape]:
        """The made-up store of this number of rows; a model that was cut off is rewritten."""
        bench, shape = self.bench(f"rows_{rows}"), shape_of(rows)
        done = bench.folder / "models_written"
        begin = int(done.read_text()) if done.exists() else 0
        if begin == 0:
            write_warehouse(bench.data, replace(shape, models=1))
        # a fork of this process would hold DuckDB's threads
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            numbers = range(begin, shape.models)
            write = partial(write_model, bench.data, shape)
            for number, _ in zip(numbers, pool.map(write, numbers), strict=True):
                write_whole(done, str(number + 1))
        return bench, shape


def write_model(data: Path, shape: Shape, number: int) -> None:
    """One model of a made-up store."""
    write_warehouse(data, shape, only_model=number)


def size_of(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def rows_of(bench: Bench) -> int:
    """Token rows of a store."""
    with duckdb.connect() as connection:
        files = f"{bench.data}/tokens/*/*/*/tokens.parquet"
        found = connection.execute(
            f"select cast(sum(num_rows) as bigint) from parquet_file_metadata('{files}')"
        ).fetchall()
    return int(found[0][0])


def written(growth: Growth, rows: int) -> Figures:
    """The store, and how large it is."""
    bench, shape = growth.store(rows)
    count = rows_of(bench)
    size = size_of(bench.data / "tokens")
    return {"rows": count, "models": shape.models, "bytes": size, "bytes_a_row": size / count}


def built(growth: Growth, rows: int, gibibytes: int) -> Figures:
    """All metrics of the store, from nothing."""
    bench, _ = growth.store(rows)
    bench.forget()
    run = bench.run(memory=f"{gibibytes}GiB")
    database = bench.folder / "tokenmart.duckdb"
    with connect_read_only(Workspace(bench.folder, bench.data, database)) as connection:
        values = connection.execute("select count(*) from metric_documents").fetchall()
    return {
        "rows": rows_of(bench), "limit_bytes": gibibytes << 30, "seconds": run.seconds,
        "cpu_seconds": run.cpu, "peak_bytes": run.peak, "database_bytes": database.stat().st_size,
        "document_values": values[0][0],
    }  # fmt: skip


def added(growth: Growth, rows: int, gibibytes: int) -> Figures:
    """What a run costs with nothing new, and with one more model."""
    bench, shape = growth.store(rows)
    memory = f"{gibibytes}GiB"
    if not (bench.folder / "tokenmart.duckdb").exists():
        bench.run(memory=memory)
    idle = bench.run(memory=memory)
    before = rows_of(bench)
    new = f"lab--model-{shape.models}"
    try:
        write_warehouse(
            bench.data, replace(shape, models=shape.models + 1), only_model=shape.models
        )
        more = bench.run(memory=memory)
        new_rows = rows_of(bench) - before
    finally:
        for folder in bench.data.glob(f"*/problem=*/model_id={new}"):
            shutil.rmtree(folder)
        bench.forget()
    return {
        "rows": before, "seconds_nothing_new": idle.seconds, "cpu_seconds_nothing_new": idle.cpu,
        "new_rows": new_rows, "seconds_one_model": more.seconds,
        "cpu_seconds_one_model": more.cpu, "peak_bytes": more.peak,
    }  # fmt: skip


def pruned(growth: Growth, rows: int) -> Figures:
    """One model's rows against all: files of other models aren't opened."""
    bench, shape = growth.store(rows)
    workspace = Workspace(bench.folder, bench.data, bench.folder / "none.duckdb")
    start = time.perf_counter()
    with connect_to_parquet(workspace) as connection:
        opening = time.perf_counter() - start
        one = "select avg(nll) from tokens where model_id = 'lab--model-1' and condition = 'full'"
        connection.execute(one).fetchall()
        seconds_one = timed(lambda: connection.execute(one).fetchall())
        seconds_all = timed(lambda: connection.execute("select avg(nll) from tokens").fetchall())
    return {
        "models": shape.models, "seconds_to_open": opening, "seconds_one_condition": seconds_one,
        "seconds_all": seconds_all,
    }  # fmt: skip


def command(bench: Bench, *words: str, codes: tuple[int, ...] = (0,)) -> Figures:
    """A command of Tokenmart in the checkout, as a user starts it."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), *words],
        env={
            **os.environ,
            "TOKENMART_HOME": str(bench.folder),
            "TOKENMART_DATA": str(bench.data),
            "TOKENMART_DATABASE": str(bench.folder / "tokenmart.duckdb"),
            "TOKENMART_MEMORY": os.environ.get("TOKENMART_MEMORY", "2GiB"),
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with peak_memory(process.pid) as peak:
        errors = process.communicate()[1]
    if process.returncode not in codes:
        raise click.ClickException(f"{' '.join(words)}: {errors.strip()[-300:]}")
    return {"seconds": time.perf_counter() - start, "peak_bytes": peak[0]}


def many_units(growth: Growth, units: int) -> Bench:
    """A store of this number of units of about 80 rows, with its problem file."""
    models = max(2, min(100, units // 200))
    documents = max(1, units // (2 * models))
    shape = Shape(
        problem="units", models=models, documents=documents, tokens=96, tokenizers=2,
        windows=(Window(32, 16),), retrieval=None, downstream_items=0,
    )  # fmt: skip
    bench = growth.bench(f"units_{units}")
    done = bench.folder / "written"
    if not done.exists():
        shutil.rmtree(bench.data, ignore_errors=True)
        write_warehouse(bench.data, shape)
        problem = {
            "name": "units", "title": "Many small units",
            "documents": {"kind": "json", "path": "docs.json"},
            "models": [
                {"full_id": f"lab/model-{n}", "family": "made-up",
                 "source": {"kind": "local", "path": "none"}} for n in range(models)
            ],
            "probes": [{"kind": "full"}, {"kind": "window", "name": "window_32", "context": 32,
                                          "stride": 16}],
        }  # fmt: skip
        write_whole(bench.data / "problems" / "units.yml", yaml.safe_dump(problem))
        write_whole(done, str(models * documents * 2))
    return bench


def on_units(growth: Growth, units: int, words: tuple[str, ...], codes: tuple[int, ...]) -> Figures:
    """A command on a store of many units; making the store up isn't counted."""
    bench = many_units(growth, units)
    return command(bench, *words, codes=codes)


COMMANDS = {
    "start": (("--help",), (0,)),
    "sql": (("sql", "select count(*) from units"), (0,)),
    "status": (("status", "--problem", "units"), (0,)),
    # made-up rows are not those that the ledger has hashed: it names every unit
    "check": (("data", "check", "--problem", "units"), (0, 4)),
}


@click.command(help=__doc__)
@click.option(
    "--rows",
    multiple=True,
    type=int,
    default=(10**7, 10**8),
    show_default=True,
    help="Rows of a store; may be repeated.",
)
@click.option(
    "--limits",
    multiple=True,
    type=int,
    default=(4, 8),
    show_default=True,
    help="Memory limit of DuckDB in GiB; may be repeated.",
)
@click.option(
    "--units",
    default=10**5,
    show_default=True,
    help="Units of the store of small ones; 0 leaves it out.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("build/growth"),
    show_default=True,
    help="Where stores are made; delete it when all is measured.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=OUTPUT,
    help="Where figures go.",
)
def main(
    rows: tuple[int, ...],
    limits: tuple[int, ...],
    units: int,
    folder: Path,
    output: Path,
) -> None:
    """Measure what is not in the output yet, smallest first."""
    known = json.loads(output.read_text("utf-8")) if output.exists() else {"pieces": {}}
    known.setdefault("machine", machine("duckdb"))
    growth = Growth(folder.absolute(), output.absolute(), known)
    growth.folder.mkdir(parents=True, exist_ok=True)
    for count in sorted(rows):
        growth.measure(f"write {count}", written, growth, count)
        for limit in limits:
            growth.measure(f"build {count} at {limit} GiB", built, growth, count, limit)
        growth.measure(f"added {count}", added, growth, count, max(limits))
        growth.measure(f"pruned {count}", pruned, growth, count)
    for name, (words, codes) in COMMANDS.items() if units else ():
        growth.measure(f"units {units} {name}", on_units, growth, units, words, codes)
    if output.resolve() in committed_outputs():
        write_tables()


if __name__ == "__main__":
    main()
