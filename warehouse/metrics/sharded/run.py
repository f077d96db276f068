"""`tokenmart dbt build --shards N`: plan, shards, marts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import duckdb

from warehouse.errors import TokenmartError
from warehouse.files import write_whole
from warehouse.metrics import last_build
from warehouse.metrics.dbt_process import command, one_at_a_time, run_words
from warehouse.metrics.going_on import overlay_without
from warehouse.metrics.lineage import manifest_path
from warehouse.metrics.registry import find_families
from warehouse.metrics.sharded.build import (
    ONLY_WHOLE_TESTS,
    RESULT_TABLES,
    Order,
    Outcome,
    write_orders,
)
from warehouse.metrics.sharded.head import (
    left_to_shards,
    name_failures,
    read_manifest,
    take_results,
    write_text_ends,
)
from warehouse.metrics.sharded.local import Runner
from warehouse.metrics.sharded.plan import (
    Shard,
    assign_models,
    last_division,
    model_sizes,
    with_guests,
)
from warehouse.metrics.tries import remember_built
from warehouse.metrics.variant_files import check_variants, take_grids
from warehouse.paths import Workspace
from warehouse.progress import progress_bar
from warehouse.remote import let_duckdb_read
from warehouse.store.share import VARIABLE, Share

TRIES = 2
"""How often a shard is built before it counts as failed."""


@dataclass(frozen=True)
class _Head:
    """The build of what is shared, in the workspace's own database."""

    workspace: Workspace
    program: Sequence[str]
    options: Sequence[str]

    @property
    def folder(self) -> Path:
        """Where the shards lie: beside the database."""
        return self.workspace.database.parent / "shards"

    def settings(self, share: Share) -> Mapping[str, str]:
        path = self.folder / "share.json"
        write_whole(path, json.dumps(share.as_json()))
        return {VARIABLE: str(path)}

    def dbt(self, share: Share, *words: str, without: Sequence[str] = ()) -> int:
        settings = self.settings(share)
        line = [*self.program, "--quiet", *words, *self.options]
        if without:
            with overlay_without(self.workspace, without) as overlay:
                return run_words(line, self.workspace, overlay, settings)[0]
        return run_words(line, self.workspace, settings=settings)[0]


def build_sharded(
    arguments: Sequence[str], workspace: Workspace, shards: int, runner: Runner
) -> int:
    """Build everything: the tables of tokens in shards, then the marts from what they hand on.

    Each shard has some models of a problem, a database of its own in `shards/` beside the
    workspace's, and the memory limit of one build. It computes what is new in it. A shard that
    fails is built once more; failing again it is named, its models' values say so, and all others
    count. The workspace's database holds the marts and no table of tokens.

    Args:
        arguments: `build`, and `--grids [FAMILY…]`.
        workspace: the checkout.
        shards: into how many the models are divided.
        runner: carries out the shards' builds.

    Returns:
        0 when all is built, 1 when a shard, a family or a mart failed.

    Raises:
        TokenmartError: other words than a build's, dbt isn't installed, nothing was extracted, or
            a family or a variants file has a mistake.
        StorageError: a file can't be read or written.
    """
    with one_at_a_time(workspace):
        return _build(arguments, workspace, shards, runner)


def _build(arguments: Sequence[str], workspace: Workspace, shards: int, runner: Runner) -> int:
    program = command()
    if program is None:
        raise TokenmartError("dbt: not installed in this environment; run `make setup`")
    families = find_families(workspace.dbt_project)
    check_variants(workspace.dbt_project, families)
    rest, grids = take_grids(arguments, [family.metric for family in families])
    if not last_build.builds_all(rest):
        raise TokenmartError(
            f"dbt {' '.join(rest)}: in shards everything is built; write `tokenmart dbt build "
            f"--shards {shards}`, with --grids if you like, or leave out --shards"
        )
    sizes = model_sizes(workspace)
    if not sizes:
        raise TokenmartError(
            f"{workspace.tokens}: no token files, nothing to divide; run `tokenmart extract`"
        )
    head = _Head(workspace, program, grids)
    workspace.database.parent.mkdir(parents=True, exist_ok=True)
    if head.dbt(Share(None), "run", "--select", "staging", *_LEDGER):
        return 1
    divided = _divide(head, shards)
    with _database(workspace) as connection:
        plan = with_guests(connection, divided)
        hosts = connection.execute(
            "select distinct problem, model_id, condition from intermediate.int_tokenisations"
        ).fetchall()
    if head.dbt(Share(tuple(hosts)), "run", "--select", "int_text_ends"):
        return 1
    with _database(workspace) as connection:
        write_text_ends(connection, head.folder / "text_ends.parquet")
    outcomes = _run_shards(head, plan, runner)
    return _put_together(head, plan, outcomes)


def _database(workspace: Workspace) -> duckdb.DuckDBPyConnection:
    """The workspace's own, whose views may read a bucket."""
    connection = duckdb.connect(str(workspace.database))
    let_duckdb_read(connection, workspace.store)
    return connection


_LEDGER = ("+int_evaluator_units", "+int_tokenisations")
"""What says who reads whom; computed from the ledger alone."""


def _divide(head: _Head, shards: int) -> list[list[tuple[str, str]]]:
    path = head.folder / "models.json"
    with _database(head.workspace) as connection:
        known = connection.execute(
            "select problem, model_id, tokenizer_sha256 from staging.stg_models"
        ).fetchall()
    tokenizers = {(problem, model_id): tokenizer for problem, model_id, tokenizer in known}
    divided = assign_models(model_sizes(head.workspace), tokenizers, shards, last_division(path))
    write_whole(path, json.dumps(divided, indent=0))
    return divided


def _run_shards(head: _Head, plan: Sequence[Shard], runner: Runner) -> dict[int, Outcome]:
    """How each shard went, by number; a failed one was tried again."""
    tested = False  # the SQL's own tests read no data: one shard runs them
    waiting = []
    for shard in plan:
        folder = head.folder / str(shard.number)
        write_whole(folder / "share.json", json.dumps(shard.share.as_json()))
        waiting.append(
            Order(
                number=shard.number,
                folder=str(folder),
                models=shard.models,
                text_ends=str(head.folder / "text_ends.parquet"),
                parsed=str(manifest_path(head.workspace).parent),
                options=tuple(head.options),
                unit_tests=not tested,
            )
        )
        tested = True
    outcomes: dict[int, Outcome] = {}
    with progress_bar(len(plan), "shards") as progress:
        progress("building", 0)
        for attempt in range(1, TRIES + 1):
            write_orders(waiting)
            for outcome in runner(waiting, head.workspace):
                outcomes[outcome.number] = outcome
                failed = bool(outcome.error)
                progress(f"shard {outcome.number}", int(not failed or attempt == TRIES))
                if failed and attempt < TRIES:
                    click.echo(f"shard {outcome.number}: {outcome.error}; once more", err=True)
            waiting = [order for order in waiting if outcomes[order.number].error]
            if not waiting:
                break
    return outcomes


def _put_together(head: _Head, plan: Sequence[Shard], outcomes: Mapping[int, Outcome]) -> int:
    built = [shard for shard in plan if not outcomes[shard.number].error]
    failed = [shard for shard in plan if outcomes[shard.number].error]
    broken = sorted({name for outcome in outcomes.values() for name in outcome.broken})
    database = head.workspace.database
    status = 1
    if built:
        leave_out = left_to_shards(read_manifest(manifest_path(head.workspace)))
        folders = [head.folder / str(shard.number) for shard in built]
        take_results(database, folders, leave_out, broken)
        excluded = [*leave_out, *RESULT_TABLES]
        words = ("build", "--exclude", *excluded, *ONLY_WHOLE_TESTS)
        status = head.dbt(Share(None), *words, without=broken)
        reasons = {
            model: f"shard {shard.number} failed: {outcomes[shard.number].error}"
            for shard in failed
            for model in shard.models
        }
        if status == 0:
            name_failures(database, reasons)
            remember_built(head.workspace)
    for shard in failed:
        models = ", ".join(model_id for _, model_id in shard.models)
        click.echo(
            f"error: shard {shard.number} ({models}): {outcomes[shard.number].error}; the other "
            f"{len(built)} are built; mend it and run the same command again (log: "
            f"{head.folder / str(shard.number) / 'build.log'})",
            err=True,
        )
    if broken:
        click.echo(
            f"error: {', '.join(broken)}: failed, see {head.folder}/*/build.log, and left out of "
            "metric_values; mend it and run the same command again",
            err=True,
        )
    seconds = max((outcome.seconds for outcome in outcomes.values()), default=0)
    fresh = sum(outcome.seconds > 0 for outcome in outcomes.values())
    click.echo(
        f"{len(built)} of {len(plan)} shards built, {fresh} of them with something new; the "
        f"longest took {seconds:.0f} s"
    )
    return 1 if status or failed or broken else 0
