"""`tokenmart shards run --count N`: the same dbt project, for some models at a time.

Each shard has a database of its own and the memory limit of one build, and hands on its models'
values per document. The marts are then built from these, in the workspace's database.
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
"""Tables that the marts are made from."""

ATTEMPTS = 2
"""Number of attempts before a shard counts as failed."""

_IN_SHARDS = (
    *("models/tokens", "models/probes"),
    *("models/marts/metrics", "models/marts/custom", "models/marts/views"),
)
"""Folders of what only shards build."""

_TESTS = {
    "run": (),
    "build": ("--exclude-resource-type", "unit_test", "--indirect-selection", "cautious"),
}
"""dbt's command → which tests run: those of data whose tables are all there."""


@dataclass(frozen=True)
class Shard:
    """Some models' build.

    folder: absolute; its database, its log and what it hands on lie there.
    models: model_ids whose rows it hands on.
    verb: dbt's command, `run` or `build`.
    variables: dbt's, in addition to `models`.
    """

    number: int
    folder: str
    models: tuple[str, ...]
    verb: str
    variables: Mapping[str, Any]

    def file(self, table: str) -> Path:
        """The files that a shard hands on of one of `HANDED_ON`."""
        return Path(self.folder) / f"{table}.parquet"


Runner = Callable[[Sequence[Shard], Workspace], Iterator[tuple[Shard, str]]]
"""Builds shards, in any order; each comes back with its error, empty when it is built."""


def build_sharded(
    verb: str, variables: Mapping[str, Any], workspace: Workspace, shards: int, runner: Runner
) -> int:
    """Build everything: tokens and metrics in shards, then the marts from what they hand on.

    A shard that fails is built once more. Failing again it is named, its models' values have that
    reason, and the others count. The workspace's database has the marts and no table of tokens.

    Args:
        verb: dbt's command, `run` or `build`.
        variables: dbt's.
        workspace: the checkout.
        shards: into how many the models are divided, at most; models stay where they were.
        runner: builds them.

    Returns:
        0 when all is built, 1 when a shard or a mart failed.

    Raises:
        TokenmartError: dbt isn't installed, nothing was extracted, or a file of the store is
            foreign or damaged.
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
    """Build one shard and write what it hands on; returns its error, empty when it is built."""
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
    """Divide models among shards of about equal size; models that share a tokenizer lie together.

    Args:
        sizes: model_id → bytes.
        tokenizers: model_id → its tokenizer; a model without one is alone with its own.
        shards: how many; some stay empty when there are fewer models.
        before: the last division. With as many shards, models stay where they were, and each new
            one goes to the smallest shard: what is built of the others stays good.
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
        for table in HANDED_ON:  # what is of no use now, or is about to be written
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
                        click.echo(f"shard {shard.number}: {error}; once more", err=True)
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
        if path.stem != "token_units"  # shows for which problems the evaluator is there
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
        for schema, name, kind in kinds:  # of an earlier build of the whole: its rows are old
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
