"""`tokenmart e2lm curate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from analysis.options import SEED
from plugins.benchmarks.e2lm.outputs import as_text, say, workspace_for, write_out
from plugins.benchmarks.e2lm.score_weights import WEIGHTS
from warehouse.options import FILE, FORCE

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Choose the items that make a score rise without wavering.")
@click.option(
    "--items",
    required=True,
    type=FILE,
    help="Table with model, tokens or step, item, score; optional columns: see the guide.",
)
@click.option("--metric", help="The reading, where the table has several.")
@click.option(
    "--method",
    type=click.Choice(["signal", "rise", "easiest", "prompts"]),
    default="signal",
    show_default=True,
    help="By signal to noise, by a positive slope, the easiest half, or without odd prompts.",
)
@click.option(
    "--subject", "subjects", multiple=True, help="Choose among these subjects; may be repeated."
)
@WEIGHTS
@click.option(
    "--compare", is_flag=True, help="Try every method for which the table has the columns."
)
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
@click.option(
    "--folds",
    type=click.IntRange(2),
    default=5,
    show_default=True,
    help="Hold out the models in so many parts; fewer parts have more pairs of models each.",
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
    method: str,
    subjects: tuple[str, ...],
    weights: tuple[float, float, float],
    compare: bool,
    fewest: int,
    most: int,
    folds: int,
    seed: int,
    out: Path | None,
    task_items: Path | None,
    chosen_items: Path | None,
    force: bool,
) -> None:
    """Choose the items that make a benchmark's score rise without wavering.

    Where the table has models with recipe science and with recipe web, items are chosen for both, a
    rise and a gap between the recipes, by the weights of SQ and CS. What the choice is worth is
    measured on models (and checkpoints, where each model has 16) that had no part in it, beside all
    items and as many random ones. Optimism is what the choice seems to be worth where it was made,
    less that. Signal of subjects and of answer lengths stands below.

    \b
    tokenmart e2lm curate --items item_scores.parquet --out chosen.json
    tokenmart e2lm curate --items item_scores.parquet --compare
    tokenmart e2lm curate --items item_scores.parquet --task-items task/items.jsonl \\
        --chosen-items shorter/items.jsonl
    """
    from plugins.benchmarks.curation.chosen_lines import chosen_lines
    from plugins.benchmarks.curation.curation import Choice, compare_methods
    from plugins.benchmarks.curation.curation import curate as choose
    from plugins.benchmarks.curation.curation_view import print_curation, print_methods
    from plugins.benchmarks.curation.items import read_items
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
    choice = Choice(fewest, most, method, subjects, weights, folds)
    found = choose(scores, workspace, choice, seed)
    if found["reason"]:
        say([found["reason"]])
    print_curation(found)
    if compare:
        found["methods"] = compare_methods(scores, workspace, choice, seed)
        print_methods(found["methods"])
    click.echo(f"\nchosen: {len(found['items'])} of {found['of']} items")
    if out is not None:
        write_out(out, as_text(found) + "\n")
    if task_items is not None and chosen_items is not None:
        write_out(chosen_items, chosen_lines(task_items, found["items"]))
