"""`tokenmart e2lm curate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from plugins.benchmarks.e2lm.outputs import WEIGHTS, as_text, say, workspace_for, write_out
from warehouse.options import FILE, FORCE_OTHER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@click.command(short_help="Choose the items whose scores rise most steadily.")
@click.option(
    "--items",
    required=True,
    type=FILE,
    help="Table with model, tokens or step, item, score, and optional columns.",
)
@click.option("--metric", help="Scoring method, if the table has several.")
@click.option(
    "--subject", "subjects", multiple=True, help="Use only items of this subject; repeatable."
)
@WEIGHTS
@click.option(
    "--fewest",
    type=click.IntRange(2),
    default=100,
    show_default=True,
    help="Minimum number of items.",
)
@click.option(
    "--most",
    type=click.IntRange(2),
    default=15_000,
    show_default=True,
    help="Maximum number of items.",
)
@click.option(
    "--out", type=FILE, help="Write the chosen items and their statistics as JSON to this file."
)
@click.option(
    "--task-items",
    type=FILE,
    help="The task's items.jsonl, one line per item, in the order of the item numbers from 0.",
)
@click.option(
    "--chosen-items", type=FILE, help="Write the chosen lines of --task-items to this file."
)
@FORCE_OTHER
def curate(
    items: Path,
    metric: str | None,
    subjects: tuple[str, ...],
    weights: tuple[float, float, float],
    fewest: int,
    most: int,
    out: Path | None,
    task_items: Path | None,
    chosen_items: Path | None,
    force: bool,
) -> None:
    """Choose the items of a benchmark whose scores rise most steadily.

    If the table has models with recipe science and with recipe web, items are chosen for their rise
    and for the gap between the recipes, with the weights of SQ and CS. The value of the choice is
    estimated on held-out models (and checkpoints, if each model has 16) and compared with all items
    and as many random ones. Optimism is the in-sample value minus the held-out value. The signal by
    subject and by answer length follows.

    \b
    tokenmart e2lm curate --items item_scores.parquet --out chosen.json
    tokenmart e2lm curate --items item_scores.parquet \\
        --task-items element_symbols/items.jsonl --chosen-items shorter/items.jsonl
    """
    from plugins.benchmarks.items.curation import Choice
    from plugins.benchmarks.items.curation import curate as choose
    from plugins.benchmarks.items.curation_view import print_curation
    from plugins.benchmarks.items.item_scores import read_items
    from plugins.benchmarks.refusal import refused
    from warehouse.files import refuse_protected

    if most < fewest:
        raise refused(f"--most {most}", f"less than --fewest {fewest}; swap them", "option")
    if (task_items is None) != (chosen_items is None):
        raise click.UsageError("--task-items and --chosen-items go together")
    workspace = workspace_for(out, force, b'"items": [')
    if chosen_items is not None:
        refuse_protected(chosen_items, workspace, "--chosen-items", force=force)
    scores = read_items(items, metric)
    say(scores.notes)
    choice = Choice(fewest, most, subjects, weights)
    curation = choose(scores, workspace, choice)
    if curation["reason"]:
        say([curation["reason"]])
    print_curation(curation)
    click.echo(
        f"\nchosen: {len(curation['items'])} of {curation['of']} items (without --fewest and "
        f"--most: {curation['unconstrained']})"
    )
    if out is not None:
        write_out(out, as_text(curation) + "\n")
    if task_items is not None and chosen_items is not None:
        write_out(chosen_items, chosen_lines(task_items, curation["items"]))


def chosen_lines(path: Path, items: Sequence[str]) -> str:
    """The lines of the chosen items, in the file's order.

    Args:
        path: the task's items.jsonl; its first line is item 0.
        items: numbers of items.

    Raises:
        TokenmartError: the file can't be read, or an item has no line.
    """
    from plugins.benchmarks.json_files import text_lines
    from plugins.benchmarks.refusal import refused

    lines = dict(enumerate(line.rstrip("\r\n") for _, line in text_lines(path)))
    numbers = {int(item) if item.isascii() and item.isdecimal() else -1: item for item in items}
    for number, item in numbers.items():
        if number not in lines:
            what = f"no line for item {item!r}, only for items 0 to {len(lines) - 1}"
            raise refused(path, what, "no-line")
    return "".join(f"{lines[number]}\n" for number in sorted(numbers))
