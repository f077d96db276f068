"""`tokenmart data`: bring what a problem needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace

if TYPE_CHECKING:
    from collections.abc import Callable

    from warehouse.paths import Workspace
    from warehouse.problem.spec import ModelSpec, Problem


_PROBLEM = click.option(
    "--problem", "problem_name", required=True, help="Problem by name, or a path to its .yml."
)


@click.group()
def data() -> None:
    """Fetch and check documents, models and targets."""


@data.command()
@_PROBLEM
@click.option("--only", type=click.Choice(["documents", "models", "target"]), help="One kind.")
@click.option("--model", "models", multiple=True, help="Weights of this model only; repeatable.")
@click.option("--offline", is_flag=True, help="Check what is here; download nothing.")
@click.option("--dry-run", is_flag=True, help="Say what is here and what would be fetched.")
def fetch(
    problem_name: str, only: str | None, models: tuple[str, ...], offline: bool, dry_run: bool
) -> None:
    """Bring what a problem needs, checked by hash; what is here already is kept.

    Files placed by hand are accepted when their hash is right. Checkpoints of the hub are
    large: they are fetched with --only models or --model, or when `tokenmart extract` needs
    them.

    \b
    tokenmart data fetch --problem minilong
    tokenmart data fetch --problem no4k --only models --model Qwen/Qwen2-0.5B-Instruct
    """
    from warehouse.problem.spec import load_problem

    workspace = find_workspace()
    problem = load_problem(problem_name, workspace)
    chosen = [problem.model(name) for name in models]
    kind = only or ("models" if models else None)
    if models and only not in (None, "models"):
        raise click.UsageError(f"--model goes with --only models, not --only {only}")
    if dry_run:
        _show_needs(problem, workspace, kind, chosen)
        return
    steps: dict[str, Callable[[], None]] = {
        "documents": lambda: _fetch_documents(problem, workspace, offline),
        "target": lambda: _fetch_target(problem, workspace, offline),
        "models": lambda: _fetch_models(problem, workspace, chosen, kind == "models", offline),
    }
    failures: list[TokenmartError] = []
    for name, step in steps.items():
        if kind in (None, name):
            try:
                step()
            except TokenmartError as error:
                failures.append(error)
    failures.sort(key=lambda failure: failure.exit_code)
    for failure in failures[:-1]:
        failure.show()
    if failures:
        raise failures[-1]


def _show_needs(
    problem: Problem, workspace: Workspace, kind: str | None, chosen: list[ModelSpec]
) -> None:
    from warehouse.problem.needs import problem_needs

    for need in problem_needs(problem, workspace, chosen or None):
        if kind in (None, need.kind):
            state = "here   " if need.present else "missing"
            where = need.path if need.present else f"from {need.source}"
            click.echo(f"{state}  {need.kind:<9}  {need.name}  ({where})")


def _fetch_documents(problem: Problem, workspace: Workspace, offline: bool) -> None:
    from warehouse.sources.fetch import ensure_documents

    table = ensure_documents(problem, workspace, offline=offline)
    characters = sum(table["characters"].to_pylist())
    licence = getattr(problem.documents, "licence", "unknown")
    click.echo(f"documents: {table.num_rows} ({characters:,} characters; licence: {licence})")


def _fetch_target(problem: Problem, workspace: Workspace, offline: bool) -> None:
    from warehouse.problem.spec import RecallTarget
    from warehouse.sources.fetch import ensure_filler, ensure_target_file

    if isinstance(problem.target, RecallTarget):
        texts = ensure_filler(problem.target, workspace, offline=offline)
        click.echo(f"target: {len(texts)} filler texts for the recall task")
    else:
        path = ensure_target_file(problem, workspace, offline=offline)
        click.echo(f"target: {path}")


def _fetch_models(
    problem: Problem, workspace: Workspace, chosen: list[ModelSpec], with_hub: bool, offline: bool
) -> None:
    from warehouse.problem.spec import HubSource
    from warehouse.sources.fetch import ensure_hub_model, ensure_weights

    done: set[object] = set()
    later = 0
    for spec in chosen or problem.models:
        if isinstance(spec.source, HubSource):
            if with_hub:
                _, commit = ensure_hub_model(spec, workspace, problem.name, offline=offline)
                click.echo(f"model: {spec.full_id} at commit {commit} (licence: {spec.licence})")
            else:
                later += 1
        elif spec.source not in done:
            done.add(spec.source)
            path = ensure_weights(spec, workspace, offline=offline)
            click.echo(f"model: {spec.full_id} at {path} (licence: {spec.licence})")
    if later:
        click.echo(f"models: {later} on the hub, fetched when needed (now: --only models)")
