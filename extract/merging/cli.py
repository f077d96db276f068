"""`tokenmart merge`."""

from __future__ import annotations

import json
import sys

import click

from warehouse.errors import TokenmartError, visible


@click.group()
def merge() -> None:
    """Merge expert models, within rules and limits, and make them again."""


@merge.command("check")
@click.argument("problem_name", metavar="FILE")
@click.option("--json", "as_json", is_flag=True, help="Print all findings as JSON.")
def check_command(problem_name: str, as_json: bool) -> None:
    """Judge the experts of a merge problem: which may take part, and on what evidence.

    Parameters are counted from the headers of safetensors files, adapters compared with the base
    they say they were made for, tokenizers by their files. No weight is read. The exit code is 1
    when an expert is refused.

    \b
    tokenmart merge check minimerge
    """
    from warehouse.merging.eligibility import judge_experts
    from warehouse.merging.problem import load_merge_problem
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


@merge.command("run")
@click.option("--problem", "problem_name", required=True, help="A merge problem by name or path.")
@click.option("--merge", "names", multiple=True, help="Make only this merge; repeatable.")
@click.option("--dry-run", is_flag=True, help="Check and print what would be made.")
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
    from extract.merging.make import make_merge, plan_merge
    from warehouse.merging.problem import load_merge_problem
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
                plan = plan_merge(problem, each, workspace)
                state = "made already" if plan.record else "to be made"
                if dry_run:
                    click.echo(f"{each.name}: {each.method} of {', '.join(each.models())}: {state}")
                    continue
                record = make_merge(plan, workspace)
                click.echo(
                    f"{each.name}: {plan.folder} ({record['seconds']:.0f} s, "
                    f"{record['peak_bytes'] / 1e9:.1f} GB of memory, "
                    f"{record['disk_bytes'] / 1e9:.1f} GB of disk)"
                )
            except TokenmartError as error:
                failures.append(error)
            progress(each.name, 1)
    for failure in failures[:-1]:
        failure.show()
    if failures:
        raise failures[-1]
