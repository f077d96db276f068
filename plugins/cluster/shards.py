"""`tokenmart shards run --count N`: build the dbt project for some models at a time.

Each shard has its own database and the memory limit of one build, and writes its models' values per
document to files. The marts are then built from these files in the workspace's database.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import duckdb

from warehouse.errors import StorageError, TokenmartError
from warehouse.files import appearing, storage_errors, write_whole
from warehouse.metrics.dbt_process import BYTES_CHECKED, one_at_a_time, start_dbt
from warehouse.paths import Workspace
from warehouse.progress import progress_bar
from warehouse.sql.views import create_views, quoted

HANDED_ON = ("metric_documents", "position_profile")
"""Tables that the marts are built from."""

ATTEMPTS = 2
"""Number of attempts before a shard counts as failed."""

_IN_SHARDS = (
    *("models/tokens", "models/probes"),
    *("models/marts/metrics", "models/marts/custom", "models/marts/views"),
)
"""Folders of SQL models that only shards build."""

_TESTS = {
    "run": (),
    "build": ("--exclude-resource-type", "unit_test", "--indirect-selection", "cautious"),
}
"""dbt's command → selection of its tests: data tests whose tables all exist."""


@dataclass(frozen=True)
class Shard:
    """The build of some models.

    folder: absolute path of the folder with its database, log and output files.
    models: model_ids whose rows it writes.
    verb: dbt's command, `run` or `build`.
    variables: dbt variables, in addition to `models`.
    """

    number: int
    folder: str
    models: tuple[str, ...]
    verb: str
    variables: Mapping[str, Any]

    def file(self, table: str) -> Path:
        """The files that a shard writes for a table of `HANDED_ON`."""
        return Path(self.folder) / f"{table}.parquet"


Runner = Callable[[Sequence[Shard], Workspace], Iterator[tuple[Shard, str]]]
"""Builds shards, in any order; yields each with its error, empty if the build succeeded."""


def build_sharded(
    verb: str, variables: Mapping[str, Any], workspace: Workspace, shards: int, runner: Runner
) -> int:
    """Build tokens and metrics in shards, then the marts from the files of the shards.

    A shard that fails is built a second time. If it fails again, an error names it, the values of
    its models are null with that reason, and the marts are built from the other shards. The
    workspace's database has the marts, but no table of tokens.

    Args:
        verb: dbt's command, `run` or `build`.
        variables: dbt variables.
        workspace: the checkout.
        shards: maximum number of shards; models stay in the shard of an earlier build.
        runner: builds the shards.

    Returns:
        0 if all builds succeeded, 1 if a shard or a mart failed.

    Raises:
        TokenmartError: dbt isn't installed, nothing was extracted, or a file of the store is
            not in the ledger or damaged.
        StorageError: a file can't be read or written.
    """
    with one_at_a_time(workspace):
        plan = _plan(workspace, shards, verb, variables)
        failed = _run(plan, workspace, runner)
        built = len(plan) - len(failed)
        status = _build_marts(workspace, verb, variables, failed) if built else 1
    for shard, error in failed:
        click.echo(
            f"error: shard {shard.number} ({', '.join(shard.models)}): {error}; correct it and run "
            f"the same command again (log: {Path(shard.folder) / 'build.log'})",
            err=True,
        )
    click.echo(f"{built} of {len(plan)} shards built")
    return 1 if status or failed else 0


def run_here(shards: Sequence[Shard], workspace: Workspace) -> Iterator[tuple[Shard, str]]:
    """Build shards on this machine, one after another: DuckDB uses all cores for each."""
    for shard in shards:
        yield shard, build_shard(shard, workspace)


def build_shard(shard: Shard, workspace: Workspace) -> str:
    """Build one shard and write its output files; returns its error, empty on success."""
    folder = Path(shard.folder)
    own = replace(workspace, database=folder / workspace.database.name)
    variables = {**shard.variables, "models": list(shard.models)}
    words = ["--quiet", shard.verb, "--vars", json.dumps(variables), *_TESTS[shard.verb]]
    words += ["--select", *(f"+{table}" for table in HANDED_ON)]
    settings = {"DBT_TARGET_PATH": str(folder / "target"), BYTES_CHECKED: "1"}
    log = folder / "build.log"
    try:
        with log.open("wb") as file:
            status = start_dbt(words, own, settings, file)
        if status:
            return _first_error(log.read_text(encoding="utf-8", errors="replace"))
        with duckdb.connect(str(own.database)) as connection:
            models = ", ".join(map(quoted, shard.models))
            for table in HANDED_ON:
                with appearing(shard.file(table)) as draft:
                    connection.execute(
                        f"copy (from main.{table} where model_id in ({models})) "
                        f"to {quoted(draft)} (format parquet, compression zstd)"
                    )
    except (TokenmartError, duckdb.Error, OSError) as error:
        return " ".join(str(error).split())[:300] or type(error).__name__
    return ""


def assign_models(
    sizes: Mapping[str, int],
    tokenizers: Mapping[str, str],
    shards: int,
    before: Sequence[Sequence[str]] = (),
) -> list[list[str]]:
    """Divide models among shards of about equal size, with models of one tokenizer together.

    Args:
        sizes: model_id → bytes.
        tokenizers: model_id → its tokenizer; a model without an entry has a tokenizer of its own.
        shards: number of shards; some are empty if there are fewer models.
        before: the previous division. If the number of shards is the same, models stay in their
            shards, and each new model goes to the smallest shard, so that the other shards don't
            have to be rebuilt.
    """
    if len(before) == shards:
        divided = [[model for model in part if model in sizes] for part in before]
        placed = {model for part in divided for model in part}
        for model in sorted(sizes.keys() - placed):
            min(divided, key=lambda part: sum(sizes[known] for known in part)).append(model)
        return divided
    divided = [[] for _ in range(shards)]
    total, so_far = sum(sizes.values()), 0
    for model in sorted(sizes, key=lambda one: (tokenizers.get(one, ""), one)):
        middle = so_far + sizes[model] / 2
        divided[min(shards - 1, int(middle * shards / max(total, 1)))].append(model)
        so_far += sizes[model]
    return divided


def _plan(
    workspace: Workspace, shards: int, verb: str, variables: Mapping[str, Any]
) -> list[Shard]:
    sizes: dict[str, int] = {}
    for table in ("tokens", "top_tokens", "eval_tokens"):
        for path in (workspace.store / table).glob("problem=*/model_id=*/condition=*/*.parquet"):
            model_id = path.parts[-3].partition("=")[2]
            sizes[model_id] = sizes.get(model_id, 0) + path.stat().st_size
    if not sizes:
        raise TokenmartError(
            f"{workspace.tokens}: no token files, nothing to divide; run `tokenmart extract`"
        )
    with duckdb.connect() as connection:
        if strangers := create_views(connection, workspace.store, every_byte=True):
            more = f" (and {len(strangers) - 1} more)" if strangers[1:] else ""
            raise TokenmartError(f"{strangers[0]}{more}; then build again")
        known = connection.execute("select model_id, tokenizer_sha256 from models").fetchall()
    top = _folder(workspace)
    path = top / "models.json"
    with storage_errors(path):
        try:
            before = json.loads(path.read_bytes()) if path.exists() else []
        except ValueError as error:
            raise StorageError(
                f"{path}: not JSON; delete it: models are divided again, and shards rebuilt"
            ) from error
        divided = assign_models(sizes, dict(known), shards, before)
        write_whole(path, json.dumps(divided, indent=0))
        for table in HANDED_ON:  # files that are not used any more, or will be written again
            for left in top.glob(f"*/{table}.parquet"):
                left.unlink()
        plan = []
        for number, models in enumerate(divided, 1):
            folder = top / str(number)
            folder.mkdir(exist_ok=True)
            if models:
                plan.append(Shard(number, str(folder), tuple(sorted(models)), verb, variables))
    return plan


def _run(plan: Sequence[Shard], workspace: Workspace, runner: Runner) -> list[tuple[Shard, str]]:
    """The shards that failed at each attempt, with their last error."""
    failed: list[tuple[Shard, str]] = []
    waiting = list(plan)
    with progress_bar(len(plan), "shards") as progress:
        progress("building", 0)
        for attempt in range(1, ATTEMPTS + 1):
            failed = []
            for shard, error in runner(waiting, workspace):
                last = attempt == ATTEMPTS
                progress(f"shard {shard.number}", int(last or not error))
                if error:
                    failed.append((shard, error))
                    if not last:
                        click.echo(f"shard {shard.number}: {error}; building it again", err=True)
            waiting = [shard for shard, _ in failed]
            if not waiting:
                break
    return failed


def _build_marts(
    workspace: Workspace,
    verb: str,
    variables: Mapping[str, Any],
    failed: Sequence[tuple[Shard, str]],
) -> int:
    left_out = [
        path.stem
        for folder in _IN_SHARDS
        for path in sorted((workspace.dbt_project / folder).rglob("*.sql"))
        if path.stem != "token_units"  # problems for which the evaluator is in the shard
    ]
    words = ["--quiet", verb, "--exclude", *left_out, *_TESTS[verb], "--vars"]
    words.append(json.dumps({**variables, "shards": str(_folder(workspace))}))
    if status := start_dbt(words, workspace, {BYTES_CHECKED: "1"}):
        return status
    with duckdb.connect(str(workspace.database)) as connection:
        kinds = connection.execute(
            "select schema_name, view_name, 'view' from duckdb_views() where not internal union "
            "all select schema_name, table_name, 'table' from duckdb_tables()"
        ).fetchall()
        for schema, name, kind in kinds:  # tables of an earlier unsharded build, with outdated rows
            if name in left_out:
                connection.execute(f'drop {kind} "{schema}"."{name}"')
        for shard, error in failed:
            connection.execute(
                "update main.metric_values set reason = ? "
                "where value is null and list_contains(?, model_id)",
                [f"shard {shard.number} failed: {error}", list(shard.models)],
            )
    return 0


def _folder(workspace: Workspace) -> Path:
    return workspace.database.parent / "shards"


def _first_error(output: str) -> str:
    """dbt's error message, in one line of at most 300 characters."""
    told = re.search(r"^\s*\w+ Error\b.*", output, re.MULTILINE | re.DOTALL)
    if told:
        return re.sub(r"^(?:\w+ Error )+(?=\S)", "", " ".join(told[0].split()))[:300]
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    wrong = (line for line in lines if re.search(r"\b(ERROR|FAIL)\b", line))
    return next(wrong, lines[-1] if lines else "dbt ended without a word")[:300]
