"""Merge expert models within rules and limits; evaluate and reproduce merges."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from plugins.merging.kit.submission_cli import submission
from warehouse.errors import TokenmartError, visible
from warehouse.options import FILE, JSON, PROBLEM


@click.group()
def merge() -> None:
    """Merge expert models within rules and limits; evaluate and reproduce merges."""


merge.add_command(submission)


@merge.command("check", short_help="Check the experts of a merge problem against its rules.")
@PROBLEM
@JSON
def check_command(problem_name: str, as_json: bool) -> None:
    """Check the experts of a merge problem against its rules.

    Parameters are counted from the headers of safetensors files, adapters are compared with their
    stated base, and tokenizers by their files. No weight is read. Exits with 1 if an expert is
    refused.

    \b
    tokenmart merge check --problem minimerge
    """
    from plugins.merging.eligibility import judge_experts
    from plugins.merging.problem import load_merge_problem
    from warehouse.paths import find_workspace

    workspace = find_workspace()
    findings = judge_experts(load_merge_problem(problem_name, workspace), workspace)
    refused = [finding for finding in findings if not finding.allowed]
    if as_json:
        click.echo(json.dumps([vars(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            if finding.allowed:
                click.echo(visible(f"{finding.expert}: {finding.rule}: {finding.evidence}"))
    for finding in refused:
        click.echo(
            visible(f"error: {finding.expert}: {finding.rule}: {finding.evidence}"), err=True
        )
    if refused:
        sys.exit(TokenmartError.exit_code)


@merge.command("run", short_help="Merge the models of a problem with mergekit.")
@PROBLEM
@click.option("--merge", "names", multiple=True, help="Use only this merge; repeatable.")
@click.option("--dry-run", is_flag=True, help="Check and print the plan, and merge nothing.")
def run_command(problem_name: str, names: tuple[str, ...], dry_run: bool) -> None:
    """Merge the models of a problem with mergekit, each in its own process.

    Invalid merges (an expert refused by a rule, unequal shapes or tokenizers, an unknown method)
    are refused before a weight is read. A merge that exceeds the problem's limits is ended. Results
    are cached by recipe, experts, seed and versions. A merge that fails does not stop the others.

    \b
    tokenmart merge run --problem minimerge --dry-run
    tokenmart merge run --problem minimerge --merge ties
    """
    from plugins.merging.evaluate import store_run
    from plugins.merging.make import cost_of, make_merge, plan_merge, refuse_over_limits
    from plugins.merging.problem import load_merge_problem
    from plugins.merging.watchdog import OverLimitError, list_limits, raise_all
    from warehouse.paths import find_workspace
    from warehouse.progress import progress_bar

    workspace = find_workspace()
    problem = load_merge_problem(problem_name, workspace)
    wanted = [problem.merge(name) for name in names] or list(problem.merges)
    failures: list[TokenmartError] = []
    with progress_bar(len(wanted), "recipes checked" if dry_run else "merges") as progress:
        for each in wanted:
            progress(each.name, 0)
            try:
                plan = plan_merge(problem, each, workspace, fetch=not dry_run)
                if dry_run:
                    refuse_over_limits(plan)
                    state = "merged already" if plan.record else "not merged yet"
                    click.echo(f"{each.name}: {each.method} of {', '.join(each.models())}: {state}")
                else:
                    record = make_merge(plan, workspace)
                    store_run(plan, "merge", "", cost_of(record), workspace)
                    refuse_over_limits(plan)
                    click.echo(
                        f"{each.name}: {plan.folder} ({record['seconds']:.0f} s, "
                        f"{record['peak_bytes'] / 1e9:.1f} GB of memory, "
                        f"{record['disk_bytes'] / 1e9:.1f} GB of disk)"
                    )
            except OverLimitError as error:
                store_run(plan, "merge", "", error.cost, workspace, error.message)
                failures.append(error)
            except TokenmartError as error:
                failures.append(error)
            progress(each.name, 1)
    if dry_run:
        click.echo(f"limits of each merge: {list_limits(problem.limits)}")
    raise_all(failures)


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
    from plugins.merging.kit.kit_files import write_kit_tasks
    from plugins.merging.real_sets import write_real_sets
    from warehouse.paths import find_workspace

    if (kit is None) == (not real):
        raise click.UsageError("give either --real or --kit")
    if kit is not None:
        lines = list(write_kit_tasks(kit, out, max_tokens=64).values())
    else:
        lines = write_real_sets(list(dict.fromkeys(real)), count, seed, find_workspace(), out)
    for line in lines:
        click.echo(f"{out}: {line}")


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
    write_bundle(finished_plan(problem, problem.merge(name), workspace), workspace, out)
    click.echo(f"written {out}; try it: tokenmart merge reproduce {out}")


@merge.command(short_help="Recompute a bundle's merge and compare the results.")
@click.argument("folder", metavar="BUNDLE", type=FILE)
@click.option(
    "--include-path",
    multiple=True,
    type=FILE,
    help="Also compare scores on the bundle's tasks in this folder; repeatable.",
)
@click.option(
    "--tolerance",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Largest accepted difference of weights and scores.",
)
@click.option("--device", default="auto", show_default=True, help="Device: auto, cpu or cuda.")
def reproduce(folder: Path, include_path: tuple[Path, ...], tolerance: float, device: str) -> None:
    """Recompute a bundle's merge from its experts and compare weights and scores.

    The bundle's limits apply. Weights are compared by hash or, if they differ and the first result
    is still cached, by their largest difference. Exits with 1 if that exceeds --tolerance.

    \b
    tokenmart merge reproduce winner --include-path real_tasks
    """
    from plugins.merging.bundle import largest_difference, make_again, scores_again
    from warehouse.paths import find_workspace
    from warehouse.progress import progress_bar

    workspace = find_workspace()
    with progress_bar(1, "merges") as progress:
        progress("merging", 0)
        plan, content, notes = make_again(folder, workspace)
    for note in notes:
        click.echo(visible(f"note: {note}"), err=True)
    record = plan.record or {}
    differ: list[str] = []
    if record["weights_sha256"] == content["record"]["weights_sha256"]:
        click.echo(f"weights are equal, byte for byte ({record['seconds']:.0f} s)")
    else:
        first = plan.folder.with_name(str(content["record"]["fingerprint"]))
        if first.is_dir():
            largest = largest_difference(first, plan.folder)
            click.echo(f"weights differ by at most {largest:.3g}")
            if not 0 < largest <= tolerance:
                differ.append(f"weights (by {largest:.3g}, or not those of the bundle)")
        else:
            differ.append("weights (the first result is no longer here to compare with)")
    if include_path:
        for task, was, now in scores_again(
            plan, content["scores"], list(include_path), workspace, device
        ):
            same = abs(was - now) <= tolerance + 1e-9
            click.echo(f"{task}: {now:.6f}, {'equal' if same else f'was {was:.6f}'}")
            if not same:
                differ.append(task)
    if differ:
        raise TokenmartError(f"{folder}: {', '.join(differ)} differ; nothing was changed")


@merge.command("eval", short_help="Score merged models on a round's tasks.")
@PROBLEM
@click.option("--round", "round_name", required=True, help="Name of the round, such as open.")
@click.option(
    "--tasks", "names", required=True, help="All tasks of the round, separated by commas."
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
    type=click.FloatRange(0),
    help="Weight of this round in the overall score.",
)
@click.option("--merge", "merges", multiple=True, help="Use only this merge; repeatable.")
@click.option("--device", default="auto", show_default=True, help="Device: auto, cpu or cuda.")
def eval_command(
    problem_name: str,
    round_name: str,
    names: str,
    include_path: tuple[Path, ...],
    weight: float,
    merges: tuple[str, ...],
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
    from plugins.merging.evaluate import Round, evaluate, store_columns, store_run
    from plugins.merging.make import finished_plan
    from plugins.merging.problem import load_merge_problem
    from plugins.merging.watchdog import OverLimitError, over_limit, raise_all
    from warehouse.paths import find_workspace
    from warehouse.progress import progress_bar

    workspace = find_workspace()
    problem = load_merge_problem(problem_name, workspace)
    wanted = [problem.merge(name) for name in merges] or list(problem.merges)
    asked = [name for name in names.split(",") if name]
    round_ = Round.of_tasks(round_name, weight, asked, include_path)
    if dropped := store_columns(round_, problem.name, workspace):
        click.echo(
            f"warning: round {round_name} is now ranked without {', '.join(dropped)}; "
            "give all its tasks in --tasks",
            err=True,
        )
    failures: list[TokenmartError] = []
    with progress_bar(len(wanted), "entries") as progress:
        for each in wanted:
            progress(each.name, 0)
            try:
                plan = finished_plan(problem, each, workspace)
                cost = evaluate(plan, round_, workspace, device)
                recorded = store_run(plan, "evaluation", round_.name, cost, workspace)
                if over := over_limit(recorded, problem.limits):
                    raise TokenmartError(
                        f"evaluation of {each.name} in round {round_.name}: refused, {over}; "
                        "finished units were kept"
                    )
                click.echo(f"{each.name}: {cost.seconds:.0f} s")
            except OverLimitError as error:
                store_run(plan, "evaluation", round_.name, error.cost, workspace, error.message)
                failures.append(error)
            except TokenmartError as error:
                failures.append(error)
            progress(each.name, 1)
    if len(failures) < len(wanted):
        click.echo(f"next: {BUILD}")
    raise_all(failures)
