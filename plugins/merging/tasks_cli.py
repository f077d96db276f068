"""`tokenmart merge tasks`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from warehouse.errors import TokenmartError
from warehouse.options import FILE

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Write generated tasks, open or hidden, for the harness.")
@click.option("--out", required=True, type=FILE, help="Write the tasks to this folder.")
@click.option("--count", default=200, show_default=True, type=click.IntRange(1),
              help="Number of items for each skill.")  # fmt: skip
@click.option("--seed", default="0", show_default=True, help="Random seed of the open items.")
@click.option(
    "--secret",
    type=FILE,
    help="File with the secret; writes the hidden sets, drawn with it, instead of the open ones.",
)
@click.option(
    "--overlap",
    default=0.0,
    show_default=True,
    help="Share of the final's items that are also in the leaderboard.",
)
@click.option(
    "--participant",
    type=FILE,
    help="Refuse if this folder contains a hidden item.",
)
@click.option(
    "--real",
    "real",
    type=click.Choice(["boolq", "mawps", "svamp", "gsm8k"]),
    multiple=True,
    help="Download this real validation set and write it instead; repeatable.",
)
@click.option("--kit", type=FILE, help="Write a CSV like the 2024 competition's kit instead.")
def tasks(
    out: Path,
    count: int,
    seed: str,
    secret: Path | None,
    overlap: float,
    participant: Path | None,
    real: tuple[str, ...],
    kit: Path | None,
) -> None:
    """Write generated tasks for the harness: yes/no questions, word problems and code.

    Without --secret it writes the open validation sets. With --secret it writes the sets of the
    leaderboard and the final, for the organiser only, each with its problem file in its own folder.

    \b
    tokenmart merge tasks --out minimerge_tasks
    tokenmart merge tasks --out hidden --secret secret.txt --overlap 0.25
    tokenmart merge tasks --out real_tasks --real boolq --real mawps --count 300
    tokenmart merge tasks --out kit_tasks --kit data/validation/cosmos_qa.csv
    """
    from plugins.merging.kit.kit_files import write_kit_tasks
    from plugins.merging.leaks import refuse_leaks
    from plugins.merging.real_sets import real_sets
    from plugins.merging.tasks import (
        hidden_sets,
        validation_sets,
        write_hidden_round,
        write_tasks,
    )
    from warehouse.paths import find_workspace

    if kit is not None:
        names = write_kit_tasks(kit, out, max_tokens=64)
        click.echo(f"{out}: {', '.join(names.values())}")
        return
    if real:
        sets, notes = real_sets(list(dict.fromkeys(real)), count, seed, find_workspace())
        write_tasks(sets, out, "real")
        for note in notes:
            click.echo(note)
        click.echo(f"{out}: {', '.join(f'real_{name}' for name in sets)}")
        return
    if secret is None:
        if participant is not None or overlap:
            raise TokenmartError("--participant and --overlap are for hidden sets; give --secret")
        paths = write_tasks(validation_sets(count, seed), out, "mini")
        click.echo(f"{out}: {len(paths) // 3} tasks of {count} items")
        return
    try:
        drawn_by = secret.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TokenmartError(
            f"--secret {secret}: can't be read; write a line of 12 or more letters there"
        ) from error
    leaderboard, final = hidden_sets(count, drawn_by, overlap)
    if participant is not None:
        items = [each for sets in (leaderboard, final) for found in sets.values() for each in found]
        refuse_leaks(participant, out, items, drawn_by)
    for name, sets in (("leaderboard", leaderboard), ("final", final)):
        path = write_hidden_round(name, sets, out / name)
        click.echo(f"{path}: {count} items of each skill")
