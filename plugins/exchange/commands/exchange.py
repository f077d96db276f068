"""Share results with other labs: export, attach and detach."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import click

from warehouse.errors import TokenmartError, visible
from warehouse.options import FORCE, JSON
from warehouse.paths import find_workspace
from warehouse.terminal import counted

if TYPE_CHECKING:
    from plugins.exchange.bundle import Manifest
    from warehouse.paths import Workspace


@click.group()
def exchange() -> None:
    """Share results with other labs: export, attach and detach."""


@exchange.command(short_help="Write an export that another lab can attach.")
@click.argument("address", metavar="DIR|s3://BUCKET/PREFIX")
@click.option(
    "--problem",
    "problems",
    multiple=True,
    help="Name of a problem to export; repeatable; default: all problems.",
)
@click.option(
    "--texts",
    type=click.Choice(["licence", "never"]),
    default="licence",
    show_default=True,
    help="Export texts and token rows where the documents' licence is open, or never.",
)
@click.option(
    "--organisation",
    default="unknown",
    show_default=True,
    help="Evaluating organisation, for the records.",
)
@FORCE
@click.option("--dry-run", is_flag=True, help="List what would be written, and write nothing.")
def export(
    address: str,
    problems: tuple[str, ...],
    texts: str,
    organisation: str,
    force: bool,
    dry_run: bool,
) -> None:
    """Write an export that another lab can attach: Parquet, ledger, values, card, records.

    If the documents' licence is open (Apache, BSD, CC-BY, CC0, MIT, ODC-BY, …), their texts and all
    token rows are exported; otherwise hashes of the documents and the values that dbt has built,
    because token ids reveal the text. Prompts of benchmarks are never exported. Scores and values
    are also written as records of the Every Eval Ever schema, and README.md is a card in the form
    of the Hugging Face Hub. The same command resumes an interrupted export.

    \b
    tokenmart exchange export shared --problem minilong --dry-run
    tokenmart exchange export s3://lab/minilong --problem minilong --organisation "Our lab"
    """
    from plugins.exchange.export import plan_export, write_export
    from warehouse.problem.spec import load_problem
    from warehouse.progress import progress_bar

    workspace = find_workspace()
    chosen = [load_problem(name, workspace) for name in problems or _stored(workspace)]
    if not chosen:
        raise TokenmartError(
            f"{workspace.tokens}: no token files, nothing to export; run `tokenmart extract`"
        )
    plan = plan_export(workspace, chosen, "never" if texts == "never" else "licence")
    for name, each in plan.problems.items():
        what = (
            "texts, token rows and values"
            if each.texts
            else f"hashes and values, no texts (licence: {each.licence})"
        )
        click.echo(
            visible(
                f"{name}: {counted(len(each.models), 'model')}, "
                f"{counted(each.documents, 'document')}; {what}"
            )
        )
    if dry_run:
        click.echo(f"{len(plan.files)} files of the store, {plan.size:,} bytes; nothing written")
        return
    with progress_bar(len(plan.files), "files") as progress:
        manifest = write_export(workspace, plan, address, organisation, progress, force)
    size = sum(file.bytes for file in manifest.files)
    click.echo(visible(f"{address}: {len(manifest.files)} files, {size:,} bytes"))
    if not any(file.path.startswith("metrics/") for file in manifest.files):
        click.echo("note: no values, nothing was built; run `tokenmart dbt build` first", err=True)
    click.echo(visible(f"next, elsewhere: tokenmart exchange attach {address}"))


@exchange.command(short_help="Attach another lab's export for SQL and rankings.")
@click.argument("address", metavar="[DIR|s3://BUCKET/PREFIX]", required=False)
@click.option("--name", help="Name in SQL; default: the last part of the address.")
@JSON
def attach(address: str | None, name: str | None, as_json: bool) -> None:
    """Attach another lab's export for SQL and rankings; without an address, list attached ones.

    Every file is checked against the sha256 in the manifest, and Parquet files against the schema.
    Nothing is copied, and your own data don't change. In SQL the tables are NAME.tokens,
    NAME.metric_values and so on; labs.tokens has the rows of all labs, with the column lab.
    `tokenmart correlate --with NAME` ranks over the models of both. Differences are listed; if the
    corpus, a condition's parameters or the target differ, nothing is correlated.

    \b
    tokenmart exchange attach s3://lab/minilong --name lab2
    tokenmart exchange attach
    """
    from plugins.exchange.attached import Attached, attached, check_name, remember
    from plugins.exchange.bundle import place_of, read_manifest, verify
    from warehouse.progress import progress_bar

    workspace = find_workspace()
    known = attached(workspace)
    if address is None:
        if as_json:
            click.echo(json.dumps([vars(bundle) for bundle in known], indent=1))
        for bundle in () if as_json else known:
            click.echo(visible(f"{bundle.name}  {bundle.address}"))
        return
    called = name or re.sub(r"[^a-z0-9]+", "_", address.rstrip("/").rpartition("/")[2].lower())
    check_name(called)
    place = str(place_of(address))
    for bundle in known:
        if bundle.name == called and bundle.address != place:
            raise TokenmartError(
                f"{address}: {called} is the name of {bundle.address}; give another one with "
                f"--name, or first `tokenmart exchange detach {called}`"
            )
    manifest, sha256 = read_manifest(address)
    with progress_bar(len(manifest.files), "files") as progress:
        verify(address, manifest, progress)
    found = _differences(workspace, manifest)
    remember(workspace, Attached(called, place, sha256))
    if as_json:
        click.echo(json.dumps({"name": called, "problems": found}, indent=1))
        return
    models = sum(len(each.models) for each in manifest.problems.values())
    click.echo(
        visible(
            f"{called}: {len(manifest.problems)} problems, {models} models, all files as written"
        )
    )
    for problem, lines in found.items():
        for line in lines:
            apart = "not compared, " if line["apart"] else ""
            click.echo(visible(f"{problem}: {apart}{line['what']}"))
    click.echo(
        f"tables: {called}.tokens, {called}.metric_values, …; everyone's: labs.tokens, …; "
        f"models of both: tokenmart correlate --with {called}"
    )


@exchange.command()
@click.argument("name")
def detach(name: str) -> None:
    """Detach an export; its files are not deleted.

    \b
    tokenmart exchange detach lab2
    """
    from plugins.exchange.attached import forget

    forget(find_workspace(), name)
    click.echo(visible(f"{name}: detached"))


def _stored(workspace: Workspace) -> list[str]:
    """Problems with token files."""
    return sorted(path.name.partition("=")[2] for path in workspace.tokens.glob("problem=*"))


def _differences(workspace: Workspace, manifest: Manifest) -> dict[str, list[dict[str, object]]]:
    """Differences, by problem of both."""
    from plugins.exchange.comparison import describe, differences
    from warehouse.paths import list_problems
    from warehouse.problem.spec import load_problem
    from warehouse.sql.connection import connect_to_parquet

    known = set(list_problems(workspace)) & set(_stored(workspace)) & manifest.problems.keys()
    found: dict[str, list[dict[str, object]]] = {}
    with connect_to_parquet(workspace) as connection:
        for name in sorted(known):
            own = describe(connection, load_problem(name, workspace), True)
            found[name] = [
                {"what": each.what, "apart": each.apart}
                for each in differences(own, manifest.problems[name])
            ]
    return found
