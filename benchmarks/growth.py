"""What growth costs: builds of larger and larger made-up stores in little memory.

    python benchmarks/growth.py                                 # 10^7 and 10^8 rows
    python benchmarks/growth.py --rows 1000000 --output try.json   # a quick look

Every piece is one measurement, written to the output immediately; finished ones are skipped, so a
stopped run resumes. Pieces of each size: `write` the store, `build` (`dbt run` of all metrics)
under each of DuckDB's memory limits, `added`: nothing new and then one new model. Peak memory is
the largest resident size of the process that builds. A piece notes the machine's load when it
began: with more than a few tenths it says little about time.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import click
import duckdb

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from made_up_warehouse import Retrieval, Shape, Window, write_warehouse
from marked_tables import RESULTS, machine, marked, replace_marked, table

from warehouse.files import write_whole
from warehouse.metrics import manifest
from warehouse.paths import Workspace, find_workspace
from warehouse.sql.connection import connect_read_only

TOKENS, DOCUMENTS = 8192, 50
"""Of each model of the made-up stores."""

OUTPUT = Path(__file__).with_name("growth.json")
BLOCK = "growth.json"
GIB = 2**30
ROWS_A_MODEL = 2.0 * DOCUMENTS * TOKENS
"""About as many: each document whole and in windows, and the answers of a retrieval probe."""

Figures = dict[str, float]


class Measured(NamedTuple):
    """What a command took: seconds, CPU seconds of all cores and peak resident bytes."""

    seconds: float
    cpu: float
    peak: int


@dataclass(frozen=True)
class Bench:
    """A copy of the dbt project on made-up data."""

    folder: Path

    @property
    def data(self) -> Path:
        """Where the Parquet files are."""
        return self.folder / "data"

    @property
    def project(self) -> Path:
        """The copy of the dbt project."""
        return self.folder / "dbt_project"

    def run(self, memory: str) -> Measured:
        """`dbt run` on the copy; ClickException when it fails."""
        start = time.perf_counter()
        process = subprocess.Popen(
            [*manifest.command(), "run", "--quiet"],
            cwd=self.project,
            env={
                **os.environ,
                "TOKENMART_HOME": str(self.folder),
                "TOKENMART_DATA": str(self.data),
                "TOKENMART_DATABASE": str(self.folder / "tokenmart.duckdb"),
                "TOKENMART_MEMORY": memory,
            },
        )
        _, status, used = os.wait4(process.pid, 0)
        if status:
            raise click.ClickException(f"dbt failed with status {status}")
        cpu = used.ru_utime + used.ru_stime
        return Measured(time.perf_counter() - start, cpu, used.ru_maxrss * 1024)

    def forget(self) -> None:
        """Remove the database, and what dbt knows from parsing the project."""
        for path in self.folder.glob("tokenmart.duckdb*"):
            path.unlink()
        shutil.rmtree(self.project / "target", ignore_errors=True)


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


def pieces(found: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The pieces of one kind, smallest store first."""
    chosen = [piece for name, piece in found["pieces"].items() if name.startswith(f"{kind} ")]
    return sorted(chosen, key=lambda piece: float(piece["rows"]))


def slope(small: Figures, large: Figures, figure: str) -> float:
    """Of log time in log rows between two builds; 1 is linear."""
    return math.log(large[figure] / small[figure]) / math.log(large["rows"] / small["rows"])


def results_block(found: dict[str, Any]) -> str:
    """Machine, builds, how they grow, and runs with little new, as RESULTS.md shows them."""
    here = found["machine"]
    stores = {store["rows"]: store for store in pieces(found, "write")}
    builds = pieces(found, "build")
    lines = [
        f"{here['cores']} cores ({here['processor']}), DuckDB {here['duckdb']}, Python "
        f"{here['python']}.",
        "",
        *table(
            {
                "rows:": "{millions:,.1f} M",
                "models:": "{models:,}",
                "bytes a row:": "{bytes_a_row:.1f}",
                "DuckDB's limit, GiB:": "{limit:.0f}",
                "build, s:": "{seconds:,.1f}",
                "processor, s:": "{cpu_seconds:,.0f}",
                "peak memory, GiB:": "{peak:.2f}",
                "load before:": "{load_before:.1f}",
            },
            [
                {
                    **stores[build["rows"]],
                    **build,
                    "millions": build["rows"] / 1e6,
                    "limit": build["limit_bytes"] / GIB,
                    "peak": build["peak_bytes"] / GIB,
                }
                for build in builds
            ],
        ),
        "",
    ]
    for limit in sorted({build["limit_bytes"] for build in builds}):
        for small, large in pairwise(each for each in builds if each["limit_bytes"] == limit):
            lines.append(
                f"- {small['rows'] / 1e6:,.1f} M to {large['rows'] / 1e6:,.1f} M rows at "
                f"{limit / GIB:.0f} GiB: rows × {large['rows'] / small['rows']:.1f}, time × "
                f"{large['seconds'] / small['seconds']:.1f} (slope "
                f"{slope(small, large, 'seconds'):.2f}), processor time × "
                f"{large['cpu_seconds'] / small['cpu_seconds']:.1f} (slope "
                f"{slope(small, large, 'cpu_seconds'):.2f})"
            )
    columns = {
        "rows:": "{millions:,.1f} M",
        "nothing new, s:": "{seconds_nothing_new:.1f}",
        "one new model (rows), s:": "{seconds_one_model:.1f} ({new_millions:.2f} M)",
    }
    rows = [
        {**each, "millions": each["rows"] / 1e6, "new_millions": each["new_rows"] / 1e6}
        for each in pieces(found, "added")
    ]
    return marked(BLOCK, [*lines, "", *table(columns, rows)])


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
def main(rows: tuple[int, ...], limits: tuple[int, ...], folder: Path, output: Path) -> None:
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
    if output.resolve() == OUTPUT:
        replace_marked(RESULTS, BLOCK, results_block(growth.found))


if __name__ == "__main__":
    main()
