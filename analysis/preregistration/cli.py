"""`tokenmart preregister`."""

from __future__ import annotations

import json

import click
from click.core import ParameterSource

from analysis.options import PROBLEM, SEED
from warehouse.options import JSON


@click.command()
@PROBLEM
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="METRIC/VARIANT, or METRIC/VARIANT:higher (or :lower), as `tokenmart metrics list "
    "--problem` names them; may be repeated, and needs --problem. Without one, what is registered "
    "already is shown.",
)
@click.option(
    "--level",
    default=0.05,
    show_default=True,
    type=click.FloatRange(0.0, 0.5, min_open=True),
    help="Level of the test.",
)
@SEED
@click.option(
    "--labels-known",
    is_flag=True,
    help="Write the entry although labels are recorded; it says so for ever.",
)
@JSON
@click.pass_context
def preregister(
    context: click.Context,
    problem: str,
    metrics: tuple[str, ...],
    level: float,
    seed: int,
    labels_known: bool,
    as_json: bool,
) -> None:
    """Say which metric will predict the target, before the target is read.

    The entry names metric, direction, rule, level, seed, models and code revision, and carries a
    hash. `tokenmart select` tests registered metrics first, and everything else as exploration.
    Entries are never removed, and all metrics registered for a problem share the level, those of
    earlier entries too. An entry is refused once the target is here, was read or stands in
    results/. Commit data/preregistered, or show the hash to somebody: that proves the date.

    \b
    tokenmart preregister --problem no4k
    tokenmart metrics list --problem no4k
    tokenmart preregister --problem no4k --metric METRIC/VARIANT
    """
    from analysis.preregistration.record import entries, register
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_problem

    by_default = context.get_parameter_source("problem") is ParameterSource.DEFAULT
    if metrics and by_default:
        raise click.UsageError("--metric: say which --problem; an entry can't be removed")
    workspace = find_workspace()
    loaded = load_problem(problem, workspace)
    if metrics:
        shown = [register(workspace, loaded, metrics, level, seed, labels_known)]
    else:
        shown = list(entries(workspace, loaded.name))
    if as_json:
        click.echo(json.dumps([entry.model_dump(mode="json") for entry in shown], indent=2))
        return
    if not shown:
        click.echo(f"{loaded.name}: nothing is pre-registered; name it with --metric")
    for entry in shown:
        names = ", ".join(f"{m.name} ({m.direction} is better)" for m in entry.metrics)
        when = "before labels" if entry.before_labels else f"NOT before labels: {entry.target}"
        click.echo(f"{entry.number}  {entry.recorded_at}  {names}; level {entry.level:g}; {when}")
        click.echo(f"   sha256 {entry.sha256}")
