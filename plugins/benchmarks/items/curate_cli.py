"""`tokenmart e2lm curate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from analysis.options import SEED
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
    """
    import json

    from plugins.benchmarks.items.curation import Choice, compare_methods
    from plugins.benchmarks.items.curation import curate as choose
    from plugins.benchmarks.items.curation_view import print_curation, print_methods
    from plugins.benchmarks.items.item_scores import read_items
    from warehouse.errors import TokenmartError, visible
    from warehouse.files import refuse_protected, write_whole
    from warehouse.paths import find_workspace

    if most < fewest:
        raise TokenmartError(f"--most {most} is less than --fewest {fewest}; swap them")
    workspace = find_workspace()
    if out is not None:
        refuse_protected(out, workspace, force=force, own=b'"items": [')
    scores = read_items(items, metric)
    for note in scores.notes:
        click.echo(visible(f"note: {note}"), err=True)
    choice = Choice(fewest, most, method, subjects, weights, folds)
    found = choose(scores, workspace, choice, seed)
    if found["reason"]:
        click.echo(visible(f"note: {found['reason']}"), err=True)
    print_curation(found)
    if compare:
        found["methods"] = compare_methods(scores, workspace, choice, seed)
        print_methods(found["methods"])
    click.echo(f"\nchosen: {len(found['items'])} of {found['of']} items")
    if out is not None:
        write_whole(out, json.dumps(found, indent=2, allow_nan=False) + "\n")
        click.echo(f"written {out}")
