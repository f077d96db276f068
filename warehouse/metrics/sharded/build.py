"""One shard's build: a process of its own, on this machine or on another that sees the folders.

python -m warehouse.metrics.sharded.build shards/3/order.json
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
from filelock import FileLock

from warehouse.errors import TokenmartError
from warehouse.files import appearing, sha256_file, write_whole
from warehouse.metrics import last_build
from warehouse.metrics.dbt_process import build_without, command, run_words
from warehouse.metrics.going_on import RESULTS, broken_families
from warehouse.metrics.registry import find_families
from warehouse.metrics.sharded.plan import Model
from warehouse.paths import Workspace, find_workspace
from warehouse.peak_memory import peak_bytes
from warehouse.sql.views import quoted, quoted_file
from warehouse.store.share import VARIABLE, read_share

RESULT_TABLES = ("metric_documents", "position_profile", "eval_item_metrics")
"""What a shard hands on: its models' values by document, region and item."""

EXCHANGED = "int_text_ends"
"""Computed once for all shards, which leave it out of their builds."""

ONLY_WHOLE_TESTS = ("--indirect-selection", "cautious")
"""A test that reads tables of shards and of marts has no place where both are."""

_SELECTED = (*(f"+{name}" for name in RESULT_TABLES), "+path:models/marts/views")
_PARSED = "partial_parse.msgpack"


@dataclass(frozen=True)
class Order:
    """What one shard's process is to do; paths are absolute.

    folder: the shard's, with `share.json` in it; its database and results go there.
    models: whose rows it hands on.
    text_ends: the file of `EXCHANGED`.
    parsed: folder of a dbt run that has parsed the project already.
    options: for dbt.
    unit_tests: whether it runs the SQL's own tests, too.
    """

    number: int
    folder: str
    models: tuple[Model, ...]
    text_ends: str
    parsed: str
    options: tuple[str, ...] = ()
    unit_tests: bool = False

    @property
    def path(self) -> Path:
        """Its own file."""
        return Path(self.folder) / "order.json"

    def environment(self, workspace: Workspace) -> dict[str, str]:
        """Variables of its process."""
        folder = Path(self.folder)
        return {
            **workspace.environment(),
            # dbt reads the name while it parses: with another it would parse everything anew
            "TOKENMART_DATABASE": str(folder / workspace.database.name),
            VARIABLE: str(folder / "share.json"),
            "DBT_TARGET_PATH": str(folder / "target"),
        }


@dataclass(frozen=True)
class Outcome:
    """How a shard's build went.

    error: one line; empty when it is built.
    broken: metric families that failed and were left out.
    seconds: wall-clock; 0 when nothing was new.
    peak_bytes: the largest process's peak memory.
    """

    number: int
    error: str = ""
    broken: tuple[str, ...] = ()
    seconds: float = 0.0
    peak_bytes: int = 0


def read_outcome(order: Order) -> Outcome | None:
    """What the shard's process left; None when it ended before it could."""
    try:
        found = json.loads((Path(order.folder) / "outcome.json").read_bytes())
        return Outcome(**{**found, "broken": tuple(found["broken"])})
    except (OSError, ValueError, TypeError):
        return None


def result_file(folder: Path, table: str) -> Path:
    """A shard's rows of one of `RESULT_TABLES`."""
    return folder / f"{table}.parquet"


def build_shard(order: Order, workspace: Workspace) -> Outcome:
    """Build a shard's tables from what is new in its share, and write what it hands on.

    Raises:
        TokenmartError: dbt isn't installed, or a file can't be read or written.
        duckdb.Error: the shard's database is damaged.
    """
    started = time.monotonic()
    share = read_share(os.environ[VARIABLE])
    program = command()
    if share is None or program is None:
        raise TokenmartError("dbt: not installed in this environment; run `make setup`")
    options = [*order.options, json.dumps(order.models), sha256_file(Path(order.text_ends))]
    reads = last_build.read_by_build(workspace, options, share)
    folder = Path(order.folder)
    written = [result_file(folder, table) for table in RESULT_TABLES]
    if last_build.changed_families(workspace, reads) == [] and all(p.is_file() for p in written):
        return Outcome(order.number)
    _take_text_ends(workspace.database, Path(order.text_ends))
    target = folder / "target"
    if not (target / _PARSED).exists() and (Path(order.parsed) / _PARSED).exists():
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(order.parsed) / _PARSED, target / _PARSED)
    (target / RESULTS).unlink(missing_ok=True)
    words = [*program, "--quiet", "build", *order.options]
    words += ["--select", *_SELECTED, "--exclude", EXCHANGED, *ONLY_WHOLE_TESTS]
    if not order.unit_tests:
        words += ["--exclude-resource-type", "unit_test"]
    status, output = run_words(words, workspace)
    broken: list[str] = []
    if status:
        families = find_families(workspace.dbt_project)
        found = broken_families(families, target, output)
        broken, status = build_without(words, workspace, found)
    if status:
        return Outcome(order.number, first_error(output), tuple(broken))
    _write_results(workspace.database, order, folder)
    if not broken:
        last_build.remember(workspace, reads)
    peak = max(peak_bytes(), peak_bytes(resource.RUSAGE_CHILDREN))
    seconds = time.monotonic() - started
    return Outcome(order.number, "", tuple(broken), round(seconds, 3), peak)


def _take_text_ends(database: Path, text_ends: Path) -> None:
    database.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(database)) as connection:
        connection.execute("create schema if not exists intermediate")
        connection.execute(
            f"create or replace table intermediate.{EXCHANGED} as "
            f"from read_parquet({quoted_file(text_ends)}, hive_partitioning = false)"
        )


def _write_results(database: Path, order: Order, folder: Path) -> None:
    """The rows of the shard's own models; guests' are another shard's."""
    with duckdb.connect(str(database)) as connection:
        connection.execute("create temp table own (problem varchar, model_id varchar)")
        connection.executemany("insert into own values (?, ?)", order.models)
        for table in RESULT_TABLES:
            with appearing(result_file(folder, table)) as draft:
                connection.execute(
                    f"copy (from main.{table} semi join own using (problem, model_id)) "
                    f"to {quoted(draft)} (format parquet, compression zstd)"
                )


def first_error(output: str) -> str:
    """What dbt says is wrong, in one line of at most 300 characters."""
    told = re.search(r"^\s*\w+ Error\b.*", output, re.MULTILINE | re.DOTALL)
    if told:
        text = re.sub(r"^(?:\w+ Error )+(?=\S)", "", " ".join(told[0].split()))
    else:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        wrong = (line for line in lines if re.search(r"\b(ERROR|FAIL)\b", line))
        text = next(wrong, lines[-1] if lines else "dbt said nothing")
    return text[:300]


def main(path: str) -> int:
    """Carry out the order in a file; how it went is written beside it."""
    found = json.loads(Path(path).read_bytes())
    models = tuple((problem, model_id) for problem, model_id in found.pop("models"))
    order = Order(**{**found, "models": models, "options": tuple(found["options"])})
    with FileLock(f"{path}.lock"):
        try:
            outcome = build_shard(order, find_workspace())
        except (TokenmartError, duckdb.Error, OSError) as error:
            text = " ".join(str(error).split())
            outcome = Outcome(order.number, text[:300] or type(error).__name__)
        write_whole(Path(order.folder) / "outcome.json", json.dumps(asdict(outcome)))
    return 1 if outcome.error else 0


def write_orders(orders: Sequence[Order]) -> None:
    """Write each order where its process finds it, without what an earlier one left."""
    for order in orders:
        (Path(order.folder) / "outcome.json").unlink(missing_ok=True)
        write_whole(order.path, json.dumps(asdict(order)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
