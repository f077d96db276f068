"""The metric library at the locked problem's shape: time and memory, compared with plain queries.

    python benchmarks/warehouse_scale.py                    # 17 models × 50 documents × 32k tokens
    python benchmarks/warehouse_scale.py --models 3 --documents 5 --tokens 4096   # a quick look

Writes made-up token statistics (`made_up_warehouse`) into a temporary folder, then measures,
in one run on one machine: a scan and a join in plain DuckDB, the full `dbt run`, a run with
nothing to do, and `dbt build` with all tests; then one added variant and fifty, in a run of
everything and in one of `--select perplexity+`; one
added model, a full run under a 2 GiB limit, and twenty metrics in DuckDB, polars and pandas. A full
build starts from nothing: dbt parses the project too. It is repeated, each time between two
measurements of the join, since a machine's pace drifts by a fifth within minutes: medians over the
rounds count, of the ratio in each round too. Ends with the goals and whether they were met, which
says something about the locked shape only, on a machine with nothing else to do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

import click
import duckdb
import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from made_up_warehouse import Retrieval, Shape, Window, write_warehouse
from twenty_metrics import ENGINES, largest_difference

from warehouse.metrics import dbt_process
from warehouse.paths import find_workspace

JOIN = """
    select model_id, exp(avg(-l.logprob)), avg(l.logprob - s.logprob),
           exp(avg(-l.logprob) filter (where l.logprob - s.logprob > 2 and l.logprob > -2))
    from (select * from tokens where condition = 'full') as l
    inner join (select * from tokens where starts_with(condition, 'window')) as s
        using (model_id, doc_id, position)
    group by model_id
"""


SELECTED = ("--select", "perplexity+")
"""What a researcher builds after a variant was added to perplexity.sql."""


@dataclass(frozen=True)
class Goal:
    """A figure that must not exceed its limit."""

    name: str
    value: float
    limit: float
    unit: str


@dataclass
class Report:
    """Measured seconds and bytes, in the order they were measured, and the goals among them."""

    figures: dict[str, float] = field(default_factory=dict)
    goals: list[Goal] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str, limit: float | None = None) -> None:
        """Record and show one figure; with a limit it is a goal."""
        self.figures[f"{name} ({unit})"] = round(value, 4)
        click.echo(f"{name:<58} {value:>10.2f} {unit}")
        if limit is not None:
            self.goals.append(Goal(name, value, limit, unit))

    def show_goals(self) -> None:
        """Which goals were met."""
        click.echo()
        for goal in self.goals:
            met = "met" if goal.value <= goal.limit else "MISSED"
            measured = f"{goal.value:.2f} of at most {goal.limit:g} {goal.unit}"
            click.echo(f"{met:<7} {goal.name:<50} {measured}")


@contextmanager
def peak_memory(pid: int) -> Iterator[list[int]]:
    """The largest resident size of a process while the block runs, sampled every 50 ms."""
    peak = [0]
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.05):
            try:
                peak[0] = max(peak[0], psutil.Process(pid).memory_info().rss)
            except psutil.NoSuchProcess:
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


class Measured(NamedTuple):
    """What a command took: seconds, CPU seconds of all cores and peak resident bytes."""

    seconds: float
    cpu: float
    peak: int


class Join(NamedTuple):
    """What the plain join takes: seconds, and CPU seconds of all cores."""

    seconds: float
    cpu: float


@dataclass(frozen=True)
class Bench:
    """A temporary copy of the dbt project on made-up data; its metrics may be edited."""

    folder: Path

    @property
    def data(self) -> Path:
        """Where the Parquet files are."""
        return self.folder / "data"

    @property
    def project(self) -> Path:
        """The copy of the dbt project."""
        return self.folder / "dbt_project"

    def run(
        self, *words: str, database: str = "tokenmart.duckdb", memory: str = "5GiB"
    ) -> Measured:
        """`dbt run`, or dbt with these words, on the copy; ClickException when it fails."""
        dbt = dbt_process.command()
        if dbt is None:
            raise click.ClickException("dbt is not installed; run `make setup`")
        start, before = time.perf_counter(), os.times()
        process = subprocess.Popen(
            [*dbt, *(words or ("run",)), "--quiet"],
            cwd=self.project,
            env={
                **os.environ,
                "TOKENMART_HOME": str(self.folder),
                "TOKENMART_DATA": str(self.data),
                "TOKENMART_DATABASE": str(self.folder / database),
                "TOKENMART_MEMORY": memory,
            },
        )
        with peak_memory(process.pid) as peak:
            code = process.wait()
        if code:
            raise click.ClickException(f"dbt failed with exit code {code}")
        after = os.times()
        cpu = after.children_user + after.children_system
        cpu -= before.children_user + before.children_system
        return Measured(time.perf_counter() - start, cpu, peak[0])

    def forget(self) -> None:
        """Remove the database, and what dbt knows from parsing the project."""
        for path in [*self.folder.glob("tokenmart.duckdb*"), self.project / "target"]:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def slowest(self) -> list[tuple[str, float]]:
        """The ten models of the last run that took longest."""
        text = (self.project / "target" / "run_results.json").read_text(encoding="utf-8")
        results = json.loads(text)["results"]
        seconds = [(r["unique_id"].rsplit(".", 1)[1], r["execution_time"]) for r in results]
        return sorted(seconds, key=lambda row: -row[1])[:10]

    def add_variants(self, metric: str, positions: Iterable[int]) -> None:
        """Add variants, each with a filter of its own, to the metric's file."""
        path = self.project / "models" / "metrics" / f"{metric}.sql"
        added = "".join(
            f"'beyond_{position}': {{'where': 'position > {position}', 'aggregation': 'micro'}}, "
            for position in positions
        )
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace("variants = {", f"variants = {{{added}"), encoding="utf-8")


def timed(action: Callable[[], object]) -> float:
    """Seconds an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def plain_queries(bench: Bench) -> tuple[float, float, Join]:
    """Millions of token rows, seconds of a scan, and the faster of two joins over them."""
    os.sync()  # what a build has written is not to slow the join down
    with duckdb.connect() as connection:
        files = f"{bench.data}/tokens/problem=s*/**/*.parquet"
        connection.execute(f"create view tokens as from read_parquet('{files}')")
        rows = connection.execute("select count(*) from tokens").fetchone()
        scan = timed(lambda: connection.execute("select sum(logprob) from tokens").fetchall())
        joins = []
        for _ in range(2):
            before = time.process_time()
            seconds = timed(lambda: connection.execute(JOIN).fetchall())
            joins.append(Join(seconds, time.process_time() - before))
    return (rows or (0,))[0] / 1e6, scan, min(joins)


def measure_full_build(bench: Bench, rounds: int, report: Report) -> None:
    """The whole library from nothing, each time between two measurements of the plain join."""
    rows, scan, join = plain_queries(bench)
    report.add("token rows", rows, "million")
    report.add("plain scan", scan, "s")
    builds, joins = [], [join]
    for _ in range(rounds):
        bench.forget()
        builds.append(bench.run())
        joins.append(plain_queries(bench)[2])
    around = [
        Join((one.seconds + other.seconds) / 2, (one.cpu + other.cpu) / 2)
        for one, other in pairwise(joins)
    ]
    measured = list(zip(builds, around, strict=True))
    ratios = [build.seconds / join.seconds for build, join in measured]
    report.add("plain join and aggregate", median(join.seconds for join in joins), "s")
    full = median(build.seconds for build in builds)
    report.add("full build (dbt run)", full, "s", limit=100)
    report.add("full build / plain join", median(ratios), "x")
    report.add("full build / plain join, lowest round", min(ratios), "x")
    report.add("full build / plain join, highest round", max(ratios), "x")
    fastest = min(build.seconds for build in builds) / min(join.seconds for join in joins)
    report.add("fastest full build / fastest plain join", fastest, "x")
    cpu = median(build.cpu / join.cpu for build, join in measured)
    report.add("full build / plain join, CPU time", cpu, "x")
    peak = max(build.peak for build in builds)
    report.add("full build, peak memory", peak / 2**30, "GiB", limit=6)
    for name, seconds in bench.slowest():
        report.add(f"    {name}", seconds, "s")


def measure_changes(bench: Bench, shape: Shape, report: Report) -> None:
    """Nothing to do, added variants, an added model; then a full build in little memory."""
    with duckdb.connect(str(bench.folder / "tokenmart.duckdb"), read_only=True) as connection:
        counted = connection.execute(
            "select count(*) from metric_catalog where admissible"
        ).fetchone()
    report.add("admissible variants", (counted or (0,))[0], "variants")
    report.add("database file", (bench.folder / "tokenmart.duckdb").stat().st_size / 2**30, "GiB")

    idle = bench.run()
    report.add("dbt run with nothing to do", idle.seconds, "s")
    report.add("dbt run with nothing to do, CPU time", idle.cpu, "s")
    tested = bench.run("build")
    report.add("dbt build of what is built, with all tests", tested.seconds, "s")
    bench.add_variants("perplexity", [1000])
    added = bench.run("run", *SELECTED)
    report.add("one added variant, selected models", added.seconds, "s", limit=10)
    report.add("one added variant, selected models, CPU time", added.cpu, "s")
    bench.add_variants("perplexity", [2000])
    report.add("one added variant, dbt run", bench.run().seconds, "s")
    bench.add_variants("perplexity", range(50))
    fifty = bench.run("run", *SELECTED)
    report.add("fifty more variants, selected models", fifty.seconds, "s")
    report.add("marginal cost of a variant", (fifty.seconds - added.seconds) / 50, "s", limit=0.2)

    write_warehouse(bench.data, shape, only_model=shape.models)
    report.add("one added model", bench.run().seconds, "s")

    small = bench.run(database="small.duckdb", memory="2GiB")
    report.add("full build at a 2 GiB limit", small.seconds, "s")
    report.add("full build at a 2 GiB limit, peak memory", small.peak / 2**30, "GiB", limit=6)


def measure_engines(bench: Bench, report: Report) -> None:
    """The same twenty metrics in three engines."""
    found = {}
    seconds = {}
    for name, compute in ENGINES.items():
        start = time.perf_counter()
        found[name] = compute(bench.data / "tokens")
        seconds[name] = time.perf_counter() - start
        report.add(f"twenty metrics, {name}", seconds[name], "s")
    report.add(
        "twenty metrics, duckdb / polars", seconds["duckdb"] / seconds["polars"], "x", limit=1
    )
    for name in ("polars", "pandas"):
        difference = largest_difference(found["duckdb"], found[name])
        report.add(f"largest relative difference to {name}", difference * 1e9, "1e-9", limit=1000)


@click.command(help=__doc__)
@click.option("--models", default=17, show_default=True)
@click.option("--documents", default=50, show_default=True)
@click.option("--tokens", default=32_768, show_default=True)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Full builds to take medians of.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Write the figures as JSON.")
def main(models: int, documents: int, tokens: int, rounds: int, output: Path | None) -> None:
    """Run all parts in a temporary folder."""
    report = Report()
    shape = Shape(
        models=models,
        documents=documents,
        tokens=tokens,
        tokenizers=min(6, models),
        windows=(Window(tokens // 8, tokens // 32),),
        retrieval=Retrieval(excerpts=8, excerpt_tokens=64, answer_tokens=32, min_gap=512),
        vocabulary=30_000,
    )
    with tempfile.TemporaryDirectory(prefix="tokenmart-bench-") as folder:
        bench = Bench(Path(folder))
        shutil.copytree(
            find_workspace(Path(__file__)).dbt_project,
            bench.project,
            ignore=shutil.ignore_patterns("target", "logs"),
        )
        report.add("writing the data", timed(lambda: write_warehouse(bench.data, shape)), "s")
        measure_full_build(bench, rounds, report)
        measure_changes(bench, shape, report)
        measure_engines(bench, report)
    report.show_goals()
    if output:
        output.write_text(json.dumps(report.figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
