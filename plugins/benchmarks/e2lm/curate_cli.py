"""The command `tokenmart e2lm curate`."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.options import SEED
from plugins.benchmarks.e2lm.outputs import as_text, say, workspace_for, write_out
from warehouse.options import FILE, FORCE


@click.command(short_help="Choose the items that make a score rise without wavering.")
@click.option(
    "--items",
    required=True,
    type=FILE,
    help="Table with model, tokens or step, item, score; and subject, characters, metric.",
)
@click.option("--metric", help="The reading, where the table has several.")
@click.option(
    "--fewest",
    type=click.IntRange(2),
    default=100,
    show_default=True,
    help="Keep at least this many items.",
)
@click.option(
    "--most",
    type=click.IntRange(2),
    default=15_000,
    show_default=True,
    help="Keep at most this many items.",
)
@SEED
@click.option("--out", type=FILE, help="Where to write the JSON with chosen items and figures.")
@click.option(
    "--task-items",
    type=FILE,
    help="The task's items.jsonl: a line an item, in the order of the items' numbers from 0.",
)
@click.option("--chosen-items", type=FILE, help="Where to write the chosen lines of --task-items.")
@FORCE
def curate(
    items: Path,
    metric: str | None,
    fewest: int,
    most: int,
    seed: int,
    out: Path | None,
    task_items: Path | None,
    chosen_items: Path | None,
    force: bool,
) -> None:
    """Choose the items that make a benchmark's score rise without wavering.

    What the choice is worth is told on models (and checkpoints, where each model has 16) that had
    no part in it, beside all items and as many random ones. Optimism is what the choice seems to be
    worth where it was made, less that. Signal of subjects and of answer lengths stands below.

    \b
    tokenmart e2lm curate --items item_scores.parquet --out chosen.json
    tokenmart e2lm curate --items item_scores.parquet --task-items task/items.jsonl \\
        --chosen-items shorter/items.jsonl
    """
    from plugins.benchmarks.e2lm.chosen_lines import chosen_lines
    from plugins.benchmarks.e2lm.curation import curate as choose
    from plugins.benchmarks.e2lm.curation import print_curation
    from plugins.benchmarks.e2lm.items import read_items
    from warehouse.errors import TokenmartError
    from warehouse.files import refuse_protected

    if most < fewest:
        raise TokenmartError(f"--most {most} is less than --fewest {fewest}; swap them")
    if (task_items is None) != (chosen_items is None):
        raise click.UsageError("--task-items and --chosen-items go together")
    workspace = workspace_for(out, force, b'"items": [')
    if chosen_items is not None:
        refuse_protected(chosen_items, workspace, "--chosen-items", force=force)
    scores = read_items(items, metric)
    say(scores.notes)
    found = choose(scores, workspace, fewest, most, seed)
    print_curation(found)
    click.echo(f"\nchosen: {len(found['items'])} of {found['of']} items")
    if out is not None:
        write_out(out, as_text(found) + "\n")
    if task_items is not None and chosen_items is not None:
        write_out(chosen_items, chosen_lines(task_items, found["items"]))
