"""What growth costs: builds of larger and larger made-up stores in little memory.

    python benchmarks/growth.py                                 # 10^7 and 10^8 rows
    python benchmarks/growth.py --rows 1000000 --output try.json   # a quick look
    python benchmarks/growth.py --locked 16 --output locked.json   # 10^9 rows in 8 GiB

`--locked` builds stores in the shape of the locked problem (17 models, 50 documents of 32k tokens),
this many times as many models, under the largest limit only. It needs a machine with nothing else
to do. A run that needs more disk than is free stops before it writes.

Every piece is one measurement, written to the output immediately; finished ones are skipped, so a
stopped run resumes. Pieces of each size: `write` the store, `build` (`dbt run` of all metrics)
under each of DuckDB's memory limits, `added`: nothing new and then one new model. Peak memory is
the largest resident size of the process that builds; peak disk that of the store's folder, with
what DuckDB writes there while it builds. A piece notes the machine's load when it
began: with more than a few tenths it says little about time.
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
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import click
import duckdb

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from made_up_warehouse import Retrieval, Shape, Window, write_warehouse
from marked_tables import RESULTS, ROOT, machine, marked, replace_marked, table

from warehouse.files import write_whole
from warehouse.metrics import manifest

TOKENS, DOCUMENTS = 8192, 50
"""Of each model of the made-up stores."""

OUTPUT = Path(__file__).with_name("growth.json")
BLOCK = "growth.json"
GIB = 2**30
DISK_A_ROW = 95
"""Bytes: 27 of Parquet, 41 of the database, and more than 14 of quantiles that are spilled; 80 were
too few (growth_locked_16.csv)."""
ROWS_A_MODEL = 2.0 * DOCUMENTS * TOKENS
"""About as many: each document whole and in windows, and the answers of a retrieval probe."""

Figures = dict[str, float]


class Measured(NamedTuple):
    """What a command took: seconds, CPU seconds of all cores, peak bytes resident and on disk."""

    seconds: float
    cpu: float
    peak: int
    peak_disk: int


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


def locked_shape(times: float) -> Shape:
    """The locked problem's documents and this many times its models: 6·10^7 rows for each time."""
    models = max(1, round(17 * times))
    return replace(shape_of(0), models=models, documents=DOCUMENTS, tokens=2**15,
                   tokenizers=min(6, models), windows=(Window(2**12, 2**10),))  # fmt: skip


def refuse_full_disk(folder: Path, shape: Shape) -> None:
    """Stop before a store is written whose build would fill the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    needed = round(2.0 * shape.models * shape.documents * shape.tokens * DISK_A_ROW)
    free = shutil.disk_usage(folder).free + size_of(folder)
    if free < needed:
        raise click.ClickException(
            f"{folder}: {free / 1e9:.1f} GB are free, and about {needed / 1e9:.1f} GB are needed; "
            "free some or set --folder to another disk"
        )


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder; DuckDB removes its temporary ones at any time."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.lstat().st_size
    return total


@dataclass(frozen=True)
class Store:
    """A made-up store in a folder of its own, with a copy of the dbt project."""

    folder: Path
    shape: Shape

    @property
    def data(self) -> Path:
        """Where the Parquet files are."""
        return self.folder / "data"

    @property
    def database(self) -> Path:
        """What dbt builds."""
        return self.folder / "tokenmart.duckdb"

    @property
    def rows(self) -> int:
        """Token rows."""
        files = f"{self.data}/tokens/*/*/*/tokens.parquet"
        query = f"select cast(sum(num_rows) as bigint) from parquet_file_metadata('{files}')"
        return int(duckdb.execute(query).fetchall()[0][0])

    def written(self) -> Figures:
        """How large the store is; it is written first if it isn't there."""
        done = self.folder / "written"
        if not done.exists():
            ignored = shutil.ignore_patterns("target", "logs")
            project = self.folder / "dbt_project"
            shutil.copytree(ROOT / "dbt_project", project, ignore=ignored, dirs_exist_ok=True)
            write_warehouse(self.data, replace(self.shape, models=1))
            # a fork of this process would hold DuckDB's threads
            with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
                list(pool.map(self.add_model, range(1, self.shape.models)))
            done.touch()
        size = sum(path.stat().st_size for path in (self.data / "tokens").rglob("*.parquet"))
        return {
            "rows": self.rows, "models": self.shape.models, "bytes": size,
            "bytes_a_row": size / self.rows,
        }  # fmt: skip

    def add_model(self, number: int) -> None:
        """Write one model."""
        shape = replace(self.shape, models=max(number + 1, self.shape.models))
        write_warehouse(self.data, shape, only_model=number)

    def run(self, gibibytes: int) -> Measured:
        """`dbt run` with this memory limit of DuckDB; ClickException when it fails."""
        start = time.perf_counter()
        process = subprocess.Popen(
            [*manifest.command(), "run", "--quiet"],
            cwd=self.folder / "dbt_project",
            env={
                **os.environ,
                "TOKENMART_HOME": str(self.folder),
                "TOKENMART_DATA": str(self.data),
                "TOKENMART_DATABASE": str(self.database),
                "TOKENMART_MEMORY": f"{gibibytes}GiB",
            },
        )
        peak_disk, ended = 0, 0
        while not ended:
            time.sleep(0.2)
            peak_disk = max(peak_disk, size_of(self.folder))
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
        if status:
            raise click.ClickException(f"dbt failed with status {status}")
        cpu = used.ru_utime + used.ru_stime
        return Measured(time.perf_counter() - start, cpu, used.ru_maxrss * 1024, peak_disk)

    def forget(self) -> None:
        """Remove the database, and what dbt knows from parsing the project."""
        for path in self.folder.glob("tokenmart.duckdb*"):
            path.unlink()
        shutil.rmtree(self.folder / "dbt_project" / "target", ignore_errors=True)

    def built(self, gibibytes: int) -> Figures:
        """All metrics of the store, from nothing."""
        self.written()
        self.forget()
        run = self.run(gibibytes)
        with duckdb.connect(str(self.database), read_only=True) as connection:
            values = connection.execute("select count(*) from metric_documents").fetchall()
        return {
            "rows": self.rows, "limit_bytes": gibibytes << 30, "seconds": run.seconds,
            "cpu_seconds": run.cpu, "peak_bytes": run.peak, "peak_disk_bytes": run.peak_disk,
            "database_bytes": self.database.stat().st_size, "document_values": values[0][0],
        }  # fmt: skip

    def added(self, gibibytes: int) -> Figures:
        """What a run costs with nothing new, and with one more model."""
        self.written()
        if not self.database.exists():
            self.run(gibibytes)
        idle = self.run(gibibytes)
        before, new = self.rows, self.shape.models
        try:
            self.add_model(new)
            more = self.run(gibibytes)
            new_rows = self.rows - before
        finally:
            for folder in self.data.glob(f"*/problem=*/model_id=lab--model-{new}"):
                shutil.rmtree(folder)
            self.forget()
        return {
            "rows": before, "seconds_nothing_new": idle.seconds,
            "cpu_seconds_nothing_new": idle.cpu, "new_rows": new_rows,
            "seconds_one_model": more.seconds, "cpu_seconds_one_model": more.cpu,
            "peak_bytes": more.peak,
        }  # fmt: skip


def pieces(record: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The pieces of one kind, smallest store first."""
    chosen = [piece for name, piece in record["pieces"].items() if name.startswith(f"{kind} ")]
    return sorted(chosen, key=lambda piece: float(piece["rows"]))


def results_block(record: dict[str, Any]) -> str:
    """Machine, builds, and runs with little new, as RESULTS.md shows them."""
    here = record["machine"]
    stores = {store["rows"]: store for store in pieces(record, "write")}
    builds = pieces(record, "build")
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
    ]
    columns = {
        "rows:": "{millions:,.1f} M",
        "nothing new, s:": "{seconds_nothing_new:.1f}",
        "one new model (rows), s:": "{seconds_one_model:.1f} ({new_millions:.2f} M)",
    }
    rows = [
        {**piece, "millions": piece["rows"] / 1e6, "new_millions": piece["new_rows"] / 1e6}
        for piece in pieces(record, "added")
    ]
    return marked(BLOCK, [*lines, "", *table(columns, rows)])


def measure(
    record: dict[str, Any], output: Path, store: Store, calls: dict[str, Callable[[], Figures]]
) -> None:
    """Add each piece that isn't in `found` to it and to the output."""
    for piece, call in calls.items():
        if piece in record["pieces"]:
            click.echo(f"{piece}: measured already")
            continue
        refuse_full_disk(store.folder, store.shape)
        load = os.getloadavg()[0]
        figures = call()
        record["pieces"][piece] = {**figures, "load_before": round(load, 2)}
        write_whole(output, json.dumps(record, indent=1) + "\n")
        shown = ", ".join(f"{name} {value:,.4g}" for name, value in figures.items())
        click.echo(f"{piece}: {shown}")


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
    "--locked",
    multiple=True,
    type=float,
    help="Build the locked problem's shape with this many times its models; may be repeated.",
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
    locked: tuple[float, ...],
    folder: Path,
    output: Path,
) -> None:
    """Measure what is not in the output yet, smallest first."""
    record = json.loads(output.read_text("utf-8")) if output.exists() else {"pieces": {}}
    record.setdefault("machine", machine("duckdb"))
    for times in sorted(locked):
        store = Store(folder.absolute() / f"locked_{times:g}", locked_shape(times))
        measure(record, output, store, {
            f"write locked x {times:g}": store.written,
            f"build locked x {times:g} at {max(limits)} GiB": partial(store.built, max(limits)),
        })  # fmt: skip
    for count in sorted(rows) if not locked else ():
        store = Store(folder.absolute() / f"rows_{count}", shape_of(count))
        measure(record, output, store, {
            f"write {count}": store.written,
            **{f"build {count} at {limit} GiB": partial(store.built, limit) for limit in limits},
            f"added {count}": partial(store.added, max(limits)),
        })  # fmt: skip
    if output.resolve() == OUTPUT:
        replace_marked(RESULTS, BLOCK, results_block(record))


if __name__ == "__main__":
    main()
