"""Merge expert models within rules and limits, and make them again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from plugins.merging.submission_cli import submission
from plugins.merging.tasks_cli import tasks
from warehouse.errors import TokenmartError, visible
from warehouse.options import FILE, JSON, PROBLEM


@click.group()
def merge() -> None:
    """Merge expert models, within rules and limits, and make them again."""


merge.add_command(submission)
merge.add_command(tasks)


@merge.command("check", short_help="Judge which experts may take part, and on what evidence.")
@click.argument("problem_name", metavar="FILE")
@JSON
def check_command(problem_name: str, as_json: bool) -> None:
    """Judge the experts of a merge problem: which may take part, and on what evidence.

    Parameters are counted from the headers of safetensors files, adapters compared with the base
    they say they were made for, tokenizers by their files. No weight is read. The exit code is 1
    when an expert is refused.

    \b
    tokenmart merge check minimerge
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


@merge.command("run", short_help="Make the merged models of a problem through mergekit.")
@PROBLEM
@click.option("--merge", "names", multiple=True, help="Make only this merge; repeatable.")
@click.option("--dry-run", is_flag=True, help="Fetch nothing, check, and print what would be made.")
def run_command(problem_name: str, names: tuple[str, ...], dry_run: bool) -> None:
    """Make the merged models of a problem through mergekit, each in a process of its own.

    What can't work (an expert that a rule refuses, unequal shapes or tokenizers, an unknown method)
    is refused before a weight is read. A merge that takes more than the problem's limits is ended.
    Results are kept in the cache and never made twice from the same recipe, experts, seed and
    versions. One that fails does not stop the others.

    \b
    tokenmart merge run --problem minimerge --dry-run
    tokenmart merge run --problem minimerge --merge ties
    """
    from plugins.merging.evaluate import store_run
    from plugins.merging.make import cost_of, make_merge, plan_merge
    from plugins.merging.problem import load_merge_problem
    from plugins.merging.watchdog import OverLimitError, raise_all
    from warehouse.paths import find_workspace
    from warehouse.progress import progress_bar

    workspace = find_workspace()
    problem = load_merge_problem(problem_name, workspace)
    wanted = [problem.merge(name) for name in names] or list(problem.merges)
    failures: list[TokenmartError] = []
    with progress_bar(len(wanted), "merges") as progress:
        for each in wanted:
            progress(each.name, 0)
            try:
                plan = plan_merge(problem, each, workspace, fetch=not dry_run)
                state = "made already" if plan.record else "to be made"
                if dry_run:
                    click.echo(f"{each.name}: {each.method} of {', '.join(each.models())}: {state}")
                    continue
                record = make_merge(plan, workspace)
                store_run(plan, "merge", "", cost_of(record), workspace)
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
    raise_all(failures)


@merge.command(short_help="Train a small expert in reading, maths or code.")
@click.argument("skill")
@click.option("--base", type=FILE, help="A checkpoint to train from.")
@click.option(
    "--problem", "problem_name", help="Or take the base and the folder of this merge problem."
)
@click.option("--out", type=FILE, help="Where to write the adapter.")
@click.option(
    "--steps", default=200, show_default=True, type=click.IntRange(1), help="Train N steps."
)
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Draw texts and starting weights with this seed.",
)
def train(
    skill: str,
    base: Path | None,
    problem_name: str | None,
    out: Path | None,
    steps: int,
    seed: int,
) -> None:
    """Train a small expert in reading, maths or code: a LoRA adapter, on generated texts.

    The texts are none of those that tasks are made of, whatever the seeds. A training that was
    stopped goes on from its last kept step when the same command is run again.

    \b
    tokenmart merge train maths --problem minimerge
    tokenmart merge train maths --base checkpoints/my-model --out experts/maths --steps 2
    """
    from plugins.merging.make import expert_folder
    from plugins.merging.problem import load_merge_problem
    from plugins.merging.training import Training, train_expert
    from warehouse.paths import find_workspace
    from warehouse.progress import progress_bar

    if problem_name is not None and base is None and out is None:
        workspace = find_workspace()
        problem = load_merge_problem(problem_name, workspace)
        expert = problem.expert(skill)
        if expert.adapter is None or expert.base is None:
            raise TokenmartError(f"{skill}: no adapter in problem {problem.name}")
        base = expert_folder(problem.expert(expert.base), problem, workspace)
        out = expert_folder(expert, problem, workspace)
    if base is None or out is None:
        raise TokenmartError("give either --problem, or --base and --out")
    done = 0
    with progress_bar(steps, "steps") as progress:

        def tick(step: int, loss: float) -> None:
            nonlocal done
            progress(f"{skill}: loss {loss:.3f} nats a token", step - done)
            done = step

        record = train_expert(Training(skill, steps=steps, seed=seed), base, out, tick)
    click.echo(
        f"{out}: {record['steps_done']} steps in {record['seconds']:.0f} s, loss "
        f"{record['losses'][0]:.3f} to {record['losses'][-1]:.3f} nats a token"
    )


@merge.command(short_help="Write what is needed to make a merge again.")
@PROBLEM
@click.option("--merge", "name", required=True, help="Bundle this merge of the problem.")
@click.option("--out", required=True, type=FILE, help="The bundle's folder.")
def bundle(problem_name: str, name: str, out: Path) -> None:
    """Write what is needed to make a merge again: recipe, adapters, hashes, versions, scores.

    \b
    tokenmart merge bundle --problem minimerge --merge task-arithmetic --out winner
    """
    from plugins.merging.bundle import write_bundle
    from plugins.merging.make import plan_merge
    from plugins.merging.problem import load_merge_problem
    from warehouse.paths import find_workspace

    workspace = find_workspace()
    problem = load_merge_problem(problem_name, workspace)
    write_bundle(plan_merge(problem, problem.merge(name), workspace), workspace, out)
    click.echo(f"written {out}; try it: tokenmart merge reproduce {out}")


@merge.command(short_help="Make a bundle's merge again, and compare the two.")
@click.argument("folder", metavar="BUNDLE", type=FILE)
@click.option(
    "--include-path",
    multiple=True,
    type=FILE,
    help="Compare scores, too, on the bundle's tasks in this folder; repeatable.",
)
@click.option(
    "--tolerance",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Allow weights and scores to differ by so much.",
)
@click.option("--device", default="auto", show_default=True, help="Compute on auto, cpu or cuda.")
def reproduce(folder: Path, include_path: tuple[Path, ...], tolerance: float, device: str) -> None:
    """Make a bundle's merge again from its experts, and compare weights and scores.

    It must be done within the bundle's limits. Weights are compared by hash; where they differ and
    the first result is still in the cache, by their largest difference. The exit code is 1 when
    something differs by more than --tolerance.

    \b
    tokenmart merge reproduce winner --include-path minimerge_tasks
    """
    from plugins.merging.bundle import largest_difference, make_again, scores_again
    from warehouse.paths import find_workspace

    workspace = find_workspace()
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
@click.option("--round", "round_name", help="The round that the tasks make up.")
@click.option("--tasks", "names", multiple=True, help="Its tasks; commas or repeated.")
@click.option(
    "--include-path",
    multiple=True,
    type=FILE,
    help="Look for tasks in this folder, too; repeatable.",
)
@click.option(
    "--weight",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0),
    help="What the round counts in the overall score.",
)
@click.option(
    "--hidden-round",
    type=FILE,
    help="Or a round's problem file, as `tokenmart merge tasks --secret` writes it.",
)
@click.option("--merge", "merges", multiple=True, help="Evaluate only this merge; repeatable.")
@click.option("--device", default="auto", show_default=True, help="Compute on auto, cpu or cuda.")
def eval_command(
    problem_name: str,
    round_name: str | None,
    names: tuple[str, ...],
    include_path: tuple[Path, ...],
    weight: float,
    hidden_round: Path | None,
    merges: tuple[str, ...],
    device: str,
) -> None:
    """Score merged models on a round's tasks, and write down what that took.

    Each runs in a process of its own, which is ended over the problem's limits; finished units are
    kept and never run again. The ranking is SQL:
    `tokenmart dbt run --select tag:benchmarks+ tag:rankings+`, then `tokenmart rank show`.
    An organiser evaluates hidden rounds with $TOKENMART_DATA on a folder of their own.

    \b
    tokenmart merge eval --problem minimerge --round open --tasks boolq
    tokenmart merge eval --problem minimerge --hidden-round hidden/final/final.yml
    """
    from plugins.merging.evaluate import Round, evaluate, store_columns, store_run
    from plugins.merging.make import plan_merge
    from plugins.merging.problem import load_merge_problem
    from plugins.merging.watchdog import OverLimitError, raise_all
    from warehouse.paths import find_workspace
    from warehouse.progress import progress_bar

    workspace = find_workspace()
    problem = load_merge_problem(problem_name, workspace)
    wanted = [problem.merge(name) for name in merges] or list(problem.merges)
    asked = [name for each in names for name in each.split(",") if name]
    if hidden_round is not None and round_name is None and not asked:
        round_ = Round.hidden(hidden_round, workspace)
    elif hidden_round is None and round_name is not None and asked:
        round_ = Round.of_tasks(round_name, weight, asked, include_path)
    else:
        raise TokenmartError("give either --round and --tasks, or --hidden-round")
    store_columns(round_, problem.name, workspace)
    failures: list[TokenmartError] = []
    with progress_bar(len(wanted), "entries") as progress:
        for each in wanted:
            progress(each.name, 0)
            try:
                plan = plan_merge(problem, each, workspace)
                if plan.record is None:
                    raise TokenmartError(
                        f"merge {each.name}: not made yet; `tokenmart merge run --problem "
                        f"{problem_name} --merge {each.name}`"
                    )
                cost = evaluate(plan, round_, workspace, device)
                store_run(plan, "evaluation", round_.name, cost, workspace)
                click.echo(f"{each.name}: {cost.seconds:.0f} s")
            except OverLimitError as error:
                store_run(plan, "evaluation", round_.name, error.cost, workspace, error.message)
                failures.append(error)
            except TokenmartError as error:
                failures.append(error)
            progress(each.name, 1)
    raise_all(failures)
