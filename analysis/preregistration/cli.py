"""`tokenmart preregister`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from warehouse.errors import visible
from warehouse.options import JSON, LAST_PROBLEM, SEED, FiniteRange

if TYPE_CHECKING:
    from analysis.preregistration.entries import Entry


@click.command()
@LAST_PROBLEM
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Metric to register: METRIC/VARIANT, or METRIC/VARIANT:higher (or :lower), as "
    "`tokenmart metrics list --problem` prints it; repeatable. Requires --problem. "
    "Without --metric, existing entries are listed.",
)
@click.option(
    "--level",
    default=0.05,
    show_default=True,
    # the draws of the test, 20 / level, are made by every later command, and an entry stays
    type=FiniteRange(0.001, 0.5),
    help="Significance level of the test.",
)
@SEED
@click.option(
    "--labels-known",
    is_flag=True,
    help="Write the entry although labels are known; it is permanently marked so.",
)
@click.option(
    "--supersedes",
    type=click.IntRange(1),
    help="Number of the entry to replace; it is kept and no longer tested. Only while "
    "labels are unknown.",
)
@click.option("--reason", help="Reason for replacing the entry.")
@click.option("--yes", is_flag=True, help="Register without asking; an entry cannot be removed.")
@JSON
@click.pass_context
def preregister(
    context: click.Context,
    problem: str,
    metrics: tuple[str, ...],
    level: float,
    seed: int,
    labels_known: bool,
    supersedes: int | None,
    reason: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Preregister a metric before the target is read.

    An entry records metric, direction, rule, level, seed, models and code revision, hashes of what
    the metric reads (SQL, macros, views, texts, probes, target, files of models), and a hash of
    itself. After a change of any of these it counts as exploratory. `tokenmart select` tests
    preregistered metrics first; everything else is exploratory. Entries are never removed, so the
    command asks first; all metrics registered for a problem share the level. An entry is refused if
    the problem file's `labels_known_since`, committed tables, git's history or the data folder show
    that labels are known. If none of these is found, the labels may still have been read. To prove
    the date, commit data/preregistered or publish the hash.

    \b
    tokenmart preregister --problem no4k
    tokenmart metrics list --problem no4k
    tokenmart preregister --problem no4k --metric METRIC/VARIANT
    """
    from analysis.preregistration.entries import entries, register
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_problem
    from warehouse.terminal import listed

    by_default = context.get_parameter_source("problem") is ParameterSource.DEFAULT
    if metrics and by_default:
        raise click.UsageError("--metric: say which --problem; an entry can't be removed")
    workspace = find_workspace()
    loaded = load_problem(problem, workspace)
    if metrics:
        shown = [
            register(
                workspace,
                loaded,
                metrics,
                level,
                seed,
                labels_known,
                supersedes=supersedes,
                reason=reason,
                confirm=(lambda entry: None) if yes else _ask,
            )
        ]
    else:
        shown = list(entries(workspace, loaded.name))
    if as_json:
        written = [entry.model_dump(mode="json", by_alias=True) for entry in shown]
        click.echo(json.dumps(written, indent=2))
        return
    if not shown:
        click.echo(f"{loaded.name}: nothing is preregistered; name it with --metric")
    since = loaded.labels_known_since
    replaced = {entry.supersedes: entry for entry in shown}
    for entry in shown:
        when = "no label was found" if entry.before_labels else f"labels were known: {entry.target}"
        if since is not None and entry.recorded_at >= since.isoformat():
            when = f"labels were known from {since} on, as the problem file states"
        click.echo(
            f"{entry.number}  {entry.recorded_at}  {entry.names}; level {entry.level:g}; {when}"
        )
        if by := replaced.get(entry.number):
            click.echo(f"   replaced by entry {by.number}: {by.reason}")
        if entry.not_covered:
            click.echo(f"   without a hash of {listed(entry.not_covered, 4)}")
        click.echo(f"   sha256 {entry.sha256}")


def _ask(entry: Entry) -> None:
    """Show what would be registered permanently; aborts unless the answer is yes."""
    what = f"{entry.names}; level {entry.level:g}, {len(entry.models)} models of {entry.problem}"
    click.confirm(visible(f"Register {what}? An entry is never removed"), abort=True, err=True)
