"""Merge expert models within rules and limits; evaluate and reproduce merges."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warehouse.errors import TokenmartError, visible
from warehouse.options import FILE, JSON, PROBLEM, FiniteRange

if TYPE_CHECKING:
    from plugins.merging.problem import Merge

MERGES = click.option("--merge", "names", multiple=True, help="Use only this merge; repeatable.")
DEVICE = click.option(
    "--device", default="auto", show_default=True, help="Device: auto, cpu or cuda."
)


def _for_each(merges: Sequence[Merge], noun: str, action: Callable[[Merge], None]) -> int:
    """Call an action for each merge and print its errors; returns how many succeeded."""
    from warehouse.progress import progress_bar

    done = 0
    with progress_bar(len(merges), noun) as progress:
        for merge_ in merges:
            progress(merge_.name, 0)
            try:
                action(merge_)
                done += 1
            except TokenmartError as error:
                error.show()
            progress(merge_.name, 1)
    return done


@click.group()
def merge() -> None:
    """Merge expert models within rules and limits; evaluate and reproduce merges."""


@merge.command("check", short_help="Check the experts of a merge problem against its rules.")
@PROBLEM
@JSON
def check_command(problem_name: str, as_json: bool) -> None:
    """Check the experts of a merge problem against its rules.

    Parameters are counted from the headers of safetensors files, adapters are compared with their
    stated base, and tokenizers by their files. No weight is read; missing files are downloaded.
    Exits with 1 if an expert is refused.

    \b
    tokenmart merge check --problem minimerge
    """
    from plugins.merging.eligibility import judge_experts
    from plugins.merging.problem import load_merge_problem
    from warehouse.paths import find_workspace

    workspace = find_workspace()
    findings, _ = judge_experts(load_merge_problem(problem_name, workspace), workspace)
    if as_json:
        click.echo(json.dumps([vars(finding) for finding in findings], indent=2))
    for finding in findings:
        line = visible(f"{finding.expert}: {finding.rule}: {finding.evidence}")
        if not finding.allowed:
            click.echo(f"error: {line}", err=True)
        elif not as_json:
            click.echo(line)
    if not all(finding.allowed for finding in findings):
        sys.exit(TokenmartError.exit_code)


@merge.command("run", short_help="Merge the models of a problem with mergekit.")
@PROBLEM
@MERGES
def run_command(problem_name: str, names: tuple[str, ...]) -> None:
    """Merge the models of a problem with mergekit, each in its own process.

    Invalid merges (an expert refused by a rule, unequal shapes or tokenizers, an unknown method)
    are refused before a weight is read. A merge that exceeds the problem's limits is ended. Results
    are cached by recipe, experts, seed and versions. A merge that fails does not stop the others.

    \b
    tokenmart merge run --problem minimerge
    tokenmart merge run --problem minimerge --merge ties
    """
    from plugins.merging.entries import store_entries
    from plugins.merging.evaluate import store_run
    from plugins.merging.make import Plan, cost_of, make_merge, plan_merge, refuse_over_limits
    from plugins.merging.problem import load_merge_problem
    from plugins.merging.watchdog import OverLimitError
    from warehouse.paths import find_workspace

    workspace = find_workspace()
    problem = load_merge_problem(problem_name, workspace)
    wanted = [problem.merge(name) for name in names] or list(problem.merges)
    plans: dict[str, Plan] = {}

    def check(merge_: Merge) -> None:
        plans[merge_.name] = plan_merge(problem, merge_, workspace)

    def run(merge_: Merge) -> None:
        plan = plans[merge_.name]
        try:
            record = make_merge(plan, workspace)
        except OverLimitError as error:
            store_run(plan, "merge", "", error.cost, workspace, error.message)
            raise
        store_run(plan, "merge", "", cost_of(record), workspace)
        refuse_over_limits(plan)
        click.echo(
            f"{merge_.name}: {plan.folder} ({record['seconds']:.0f} s, "
            f"{record['peak_bytes'] / 1e9:.1f} GB of memory, "
            f"{record['disk_bytes'] / 1e9:.1f} GB of disk)"
        )

    _for_each(wanted, "recipes checked", check)
    store_entries(problem, plans.values(), workspace)
    valid = [merge_ for merge_ in wanted if merge_.name in plans]
    if _for_each(valid, "merges", run) < len(wanted):
        sys.exit(TokenmartError.exit_code)


@merge.command(short_help="Write validation sets as tasks for the harness.")
@click.option("--out", required=True, type=FILE, help="Write the tasks to this folder.")
@click.option(
    "--real",
    type=click.Choice(["boolq", "mawps"]),
    multiple=True,
    help="Download this validation set; repeatable.",
)
@click.option("--kit", type=FILE, help="Write a CSV like the 2024 competition's kit instead.")
@click.option("--count", default=200, show_default=True, type=click.IntRange(1),
              help="Number of items of each set.")  # fmt: skip
@click.option("--seed", default="0", show_default=True, help="Random seed of the choice of items.")
def tasks(out: Path, real: tuple[str, ...], kit: Path | None, count: int, seed: str) -> None:
    """Write validation sets as tasks of lm-evaluation-harness.

    \b
    tokenmart merge tasks --out real_tasks --real boolq --real mawps --count 300
    tokenmart merge tasks --out kit_tasks --kit data/validation/cosmos_qa.csv
    """
    from plugins.merging.kit_files import write_kit_tasks
    from plugins.merging.real_sets import write_real_sets
    from warehouse.paths import find_workspace

    if (kit is None) == (not real):
        raise click.UsageError("give either --real or --kit")
    if kit is not None:
        lines = write_kit_tasks(kit, out)
    else:
        lines = write_real_sets(list(dict.fromkeys(real)), count, seed, find_workspace(), out)
    for line in lines:
        click.echo(f"{out}: {line}")


@merge.command("eval", short_help="Score merged models on a round's tasks.")
@PROBLEM
@click.option("--round", "round_name", required=True, help="Name of the round, such as open.")
@click.option(
    "--tasks", "names_of_tasks", required=True, help="All tasks of the round, separated by commas."
)
@click.option(
    "--include-path",
    multiple=True,
    type=FILE,
    help="Search this folder for tasks too; repeatable.",
)
@click.option(
    "--weight",
    default=1.0,
    show_default=True,
    type=FiniteRange(0),
    help="Weight of this round in the overall score.",
)
@MERGES
@DEVICE
def eval_command(
    problem_name: str,
    round_name: str,
    names_of_tasks: str,
    include_path: tuple[Path, ...],
    weight: float,
    names: tuple[str, ...],
    device: str,
) -> None:
    """Score merged models on a round's tasks and record the costs.

    Each model runs in its own process, which is ended if it exceeds the problem's limits. Finished
    units are never computed again. To rank the models, run
    `tokenmart dbt run --select tag:benchmarks tag:rankings`, then `tokenmart rank show`.
    Organisers evaluate hidden rounds with $TOKENMART_DATA set to their own folder.

    \b
    tokenmart merge eval --problem minimerge --round open --tasks boolq
    tokenmart merge eval --problem minimerge --round final --tasks final_code \\
        --include-path final
    """
    from plugins.merging.competition.standings import BUILD
    from plugins.merging.entries import store_entries
    from plugins.merging.evaluate import Round, evaluate, store_columns, store_run
    from plugins.merging.make import finished_plan
    from plugins.merging.problem import load_merge_problem
    from plugins.merging.watchdog import OverLimitError, over_limit
    from warehouse.paths import find_workspace

    workspace = find_workspace()
    problem = load_merge_problem(problem_name, workspace)
    wanted = [problem.merge(name) for name in names] or list(problem.merges)
    asked = [name for name in names_of_tasks.split(",") if name]
    round_ = Round.of_tasks(round_name, weight, asked, include_path)
    if dropped := store_columns(round_, problem.name, workspace):
        click.echo(
            f"warning: round {round_name} is now ranked without {', '.join(dropped)}; "
            "give all its tasks in --tasks",
            err=True,
        )

    store_entries(problem, (), workspace)

    def score(merge_: Merge) -> None:
        plan = finished_plan(problem, merge_, workspace)
        store_entries(problem, [plan], workspace)
        try:
            cost = evaluate(plan, round_, workspace, device)
        except OverLimitError as error:
            store_run(plan, "evaluation", round_name, error.cost, workspace, error.message)
            raise
        recorded = store_run(plan, "evaluation", round_name, cost, workspace)
        if over := over_limit(recorded, problem.limits):
            raise TokenmartError(f"evaluation of {merge_.name} in round {round_name}: {over}")
        click.echo(f"{merge_.name}: {cost.seconds:.0f} s")

    done = _for_each(wanted, "entries", score)
    if done:
        click.echo(f"next: {BUILD}")
    if done < len(wanted):
        sys.exit(TokenmartError.exit_code)


@merge.command(short_help="Write the files needed to reproduce a merge.")
@PROBLEM
@click.option("--merge", "name", required=True, help="Merge to bundle.")
@click.option("--out", required=True, type=FILE, help="Write the bundle to this folder.")
def bundle(problem_name: str, name: str, out: Path) -> None:
    """Write the files needed to reproduce a merge: recipe, adapters, hashes, versions, scores.

    \b
    tokenmart merge bundle --problem minimerge --merge task-arithmetic \\
        --out winner
    """
    from plugins.merging.bundle import write_bundle
    from plugins.merging.make import finished_plan
    from plugins.merging.problem import load_merge_problem
    from warehouse.paths import find_workspace

    workspace = find_workspace()
    problem = load_merge_problem(problem_name, workspace)
    scores = write_bundle(finished_plan(problem, problem.merge(name), workspace), workspace, out)
    rounds = ", ".join(scores) or "none, because the warehouse has none of these weights"
    click.echo(
        f"written {out} (scores of rounds: {rounds}); try it: tokenmart merge reproduce {out}"
    )


@merge.command(short_help="Recompute a bundle's merge and compare the results.")
@click.argument("folder", metavar="BUNDLE", type=FILE)
@click.option(
    "--include-path",
    multiple=True,
    type=FILE,
    help="Also compare scores on the bundle's tasks in this folder; repeatable.",
)
@DEVICE
def reproduce(folder: Path, include_path: tuple[Path, ...], device: str) -> None:
    """Recompute a bundle's merge from its experts and compare weights and scores.

    The bundle's limits apply. Weights are compared by hash, scores to 9 decimals. Exits with 1 if
    they differ.

    \b
    tokenmart merge reproduce winner --include-path real_tasks
    """
    from plugins.merging.bundle import make_again, scores_again
    from warehouse.paths import find_workspace

    workspace = find_workspace()
    plan, given, notes = make_again(folder, workspace)
    for note in notes:
        click.echo(visible(f"note: {note}"), err=True)
    record = plan.record or {}
    differ: list[str] = []
    if record["weights_sha256"] == given.record.weights_sha256:
        click.echo(f"weights are equal, byte for byte ({record['seconds']:.0f} s)")
    else:
        differ.append("weights")
    if include_path:
        for task, was, now in scores_again(
            plan, given.scores, list(include_path), workspace, device
        ):
            same = abs(was - now) <= 1e-9
            click.echo(f"{task}: {now:.6f}, {'equal' if same else f'was {was:.6f}'}")
            if not same:
                differ.append(task)
    if differ:
        raise TokenmartError(f"{folder}: {', '.join(differ)} differ", code="differs", where=folder)
