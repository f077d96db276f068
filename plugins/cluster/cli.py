"""`tokenmart extract-on-ray`."""

from __future__ import annotations

from typing import Any

import click

from extract.cli import extract
from warehouse.errors import UnitFailedError
from warehouse.terminal import counted

SHARED = (
    "problem_name",
    "models",
    "dtype",
    "probes",
    "documents",
    "max_tokens",
    "attention",
    "fused",
    "top_k",
    "force",
)
"""Options that have the meaning of those of `tokenmart extract`."""


@click.command("extract-on-ray", params=[each for each in extract.params if each.name in SHARED])
@click.option(
    "--workers",
    type=click.IntRange(1),
    help="Number of actors; default: one per GPU, or per node where there are no GPUs.",
)
@click.option(
    "--address",
    help="Address of the Ray cluster, HOST:PORT; default: a new cluster on this machine.",
)
def extract_on_ray(
    problem_name: str, workers: int | None, address: str | None, **chosen: Any
) -> None:
    """Extract on a Ray cluster.

    Every machine must see the checkout and its data folder under the same path.

    \b
    tokenmart extract-on-ray --problem no4k --address head:6379
    """
    from extract.failures import print_lines, summary
    from extract.planning.selection import select
    from extract.planning.status import count_finished
    from extract.run import RUN_AGAIN, prepared_documents
    from plugins.cluster.ray_extraction import run_on_ray
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_problem

    workspace = find_workspace()
    problem = load_problem(problem_name, workspace)
    selection = select(problem, workspace, device="cpu", **chosen)
    documents = prepared_documents(selection)
    total = len(selection.models) * len(documents) * len(selection.conditions)
    before = count_finished(selection, documents)
    failures, notes = run_on_ray(selection, documents, address, workers)
    done = count_finished(selection, documents)
    click.echo(
        f"extracted {counted(done - before, 'unit')}; {before} of {total} were there already"
    )
    print_lines("note", notes)
    lines = summary(failures)
    print_lines("error", lines)
    if done < total or lines:
        raise UnitFailedError(f"{total - done} of {total} units are missing; {RUN_AGAIN}")
