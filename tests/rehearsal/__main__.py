"""`python -m tests.rehearsal`: the rehearsal of no4k, with a table at its end."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tests" / "helpers")]

from tests.rehearsal.all_well import AllWell, Stage  # noqa: E402
from tests.rehearsal.hub import Hub  # noqa: E402
from tests.rehearsal.lookalikes import LOOK_ALIKES  # noqa: E402
from tests.rehearsal.small_card import SmallCard  # noqa: E402
from tests.rehearsal.steps import Steps  # noqa: E402


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--part",
    type=click.Choice(["all", "well", "card", "broken"]),
    default="all",
    show_default=True,
    help="Run the rehearsal without failures, the one on an emulated card of 24 GB, those with a "
    "broken model, or all of them.",
)
@click.option("--keep", type=click.Path(path_type=Path), help="Work in this new folder, keep it.")
def main(part: str, keep: Path | None) -> None:
    """Rehearse the locked problem with look-alikes of its 17 models; exit 0 if all went well."""
    console = Console(width=max(Console().width, 150))
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as temporary:
        stage = Stage(keep or Path(temporary))
        steps = Steps(lambda line: console.print(line, markup=False, highlight=False))
        steps.run("make 17 look-alike repositories", stage.build)
        well = True
        if part in ("all", "well"):
            well = rehearse_all_well(stage, steps, console)
        if part in ("all", "card"):
            rehearse_on_a_small_card(stage, steps, console)
        if part in ("all", "broken"):
            rehearse_broken(stage, steps)
    show_steps(steps, console)
    sys.exit(0 if well and not steps.failures else 1)


def rehearse_all_well(stage: Stage, steps: Steps, console: Console) -> bool:
    """Everything, then the table of models; returns whether all 17 are complete."""
    with Hub(stage.repositories) as hub:
        rehearsal = AllWell(stage, hub, stage.checkout("checkout", hub), steps)
        rehearsal.run()
    results, expected = rehearsal.results, rehearsal.units_per_model
    table = Table("model", "what the look-alike exercises", "units", "log-probs off by", "")
    complete = 0
    for model in LOOK_ALIKES:
        well = results.complete(model.full_id, expected)
        complete += well
        units = f"{results.units.get(model.full_id, 0)} of {expected}"
        off = results.differences.get(model.full_id)
        shown = "not compared" if off is None else f"{off:.1e} nats"
        table.add_row(model.full_id, model.exercises, units, shown, "ok" if well else "FAILED")
    console.print(table)
    console.print(f"{complete} of {len(LOOK_ALIKES)} models", highlight=False)
    return complete == len(LOOK_ALIKES)


def rehearse_on_a_small_card(stage: Stage, steps: Steps, console: Console) -> None:
    """The true sizes on an emulated card, then the table of peaks."""
    with Hub(stage.repositories) as hub:
        card = SmallCard(stage.checkout("small-card", hub), steps)
        card.run()
    console.print(card.table())


def rehearse_broken(stage: Stage, steps: Steps) -> None:
    """One model broken on purpose, in each way."""
    from tests.rehearsal.broken import BREAKAGES, rehearse

    for breakage in BREAKAGES:
        steps.run(f"broken: {breakage.name}", lambda breakage=breakage: rehearse(breakage, stage))


def show_steps(steps: Steps, console: Console) -> None:
    """Every step's time, and what failed."""
    table = Table("step", "seconds", "", "")
    for step in steps.done:
        table.add_row(
            step.name, f"{step.seconds:.1f}", "FAILED" if step.failure else "ok", step.note
        )
    console.print(table)
    console.print(f"{steps.seconds / 60:.1f} minutes", highlight=False)
    for step in steps.failures:
        console.print(f"FAILED: {step.name}: {step.failure}", markup=False, highlight=False)


if __name__ == "__main__":
    main()
