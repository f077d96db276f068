"""`tokenmart merge submission`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from warehouse.options import FILE, FORCE_OTHER

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Write or check submission.csv for the 2024 merging competition.")
@click.option("--kit", required=True, type=FILE, help="The kit's CSV, such as data/test.csv.")
@click.option(
    "--problem", "problem_name", help="Name of the merge problem, or path of its .yml file."
)
@click.option("--merge", "name", help="Merge of the problem to run.")
@click.option("--check", "checked", type=FILE, help="Check this file instead of writing one.")
@click.option(
    "--max-tokens",
    default=64,
    show_default=True,
    type=click.IntRange(1),
    help="Maximum number of generated tokens per item.",
)
@click.option("--device", default="auto", show_default=True, help="Device: auto, cpu or cuda.")
@click.option(
    "--out",
    type=FILE,
    default="submission.csv",
    show_default=True,
    help="Write the predictions to this file.",
)
@FORCE_OTHER
def submission(
    kit: Path,
    problem_name: str | None,
    name: str | None,
    checked: Path | None,
    max_tokens: int,
    device: str,
    out: Path,
    force: bool,
) -> None:
    """Write submission.csv (id, prediction, dummy_field) for a CSV of the competition's kit.

    The prediction of a multiple-choice item is the index of the choice with the largest
    log-likelihood, as for acc; that of a generation is the text. Answered items are not run again.
    The file is checked against the kit's: every id occurs once, every index is that of a choice.

    \b
    tokenmart merge submission --kit data/test.csv --problem minimerge \\
        --merge ties
    tokenmart merge submission --kit data/test.csv --check submission.csv
    """
    from plugins.merging.kit.kit_files import check_submission, read_kit, write_submission
    from warehouse.errors import TokenmartError, visible
    from warehouse.files import refuse_protected
    from warehouse.paths import find_workspace

    items = read_kit(kit)
    if checked is not None and problem_name is None and name is None:
        notes = check_submission(checked, items)
        click.echo(f"{checked}: {len(items)} predictions, valid for the kit")
    elif checked is None and problem_name is not None and name is not None:
        from plugins.merging.kit.predictions import predict
        from plugins.merging.make import finished_plan
        from plugins.merging.problem import load_merge_problem

        workspace = find_workspace()
        refuse_protected(out, workspace, force=force, own=b"id,prediction,dummy_field")
        problem = load_merge_problem(problem_name, workspace)
        plan = finished_plan(problem, problem.merge(name), workspace)
        predictions, cost = predict(plan, kit, items, workspace, device, max_tokens)
        notes = write_submission(out, items, predictions)
        click.echo(f"written {out}: {len(items)} predictions of {name} ({cost.seconds:.0f} s)")
    else:
        raise TokenmartError("give either --problem and --merge, or --check")
    for note in notes:
        click.echo(visible(f"note: {note}"), err=True)
