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
