"""`tokenmart metrics` and `tokenmart dbt`: what the metric library holds, new metrics, builds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn

import click

from warehouse.errors import TokenmartError
from warehouse.metrics.new import new
from warehouse.paths import find_workspace

if TYPE_CHECKING:
    import duckdb

    from warehouse.metrics.near_copies import Alike, Group

_CATALOG = """
    select
        metric,
        variant,
        family,
        parameters,
        direction,
        admissible,
        formula
    from metric_catalog
    where coalesce(metric = $metric, true)
        and coalesce(family = $family, true)
        and (not $admissible or admissible)
    order by family, metric, variant
"""

_ABOUT = """
    select *
    from metric_catalog
    where metric = $metric
        and coalesce(variant = $variant, true)
    order by variant
"""

_VALUES = """
    select
        problem,
        variant,
        model_id,
        value,
        tokens,
        documents,
        reason
    from metric_values
    where metric = $metric
        and coalesce(variant = $variant, true)
        and coalesce(problem = $problem, true)
    order by problem, variant, model_id
"""


@click.group()
def metrics() -> None:
    """List metric families, variants and their formulas; start a metric of your own."""


@metrics.command("list")
@click.option("--metric", help="This metric's variants only.")
@click.option("--family", help="This family only.")
@click.option("--admissible", is_flag=True, help="Only what an official submission may use.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def list_(metric: str | None, family: str | None, admissible: bool, as_json: bool) -> None:
    """All metrics with formula and direction; with --metric, its variants and settings.

    \b
    tokenmart metrics list
    tokenmart metrics list --metric longppl
    tokenmart metrics list --admissible --json
    """
    with _connect() as connection:
        rows = _rows(connection, _CATALOG, metric=metric, family=family, admissible=admissible)
        if not rows and (metric or family):
            _no_such(connection, metric or family or "")
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if metric:
        for row in rows:
            click.echo(f"{row['variant']}  {_settings(row['parameters'])}")
        return
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["metric"]] = counts.get(row["metric"], 0) + 1
    shown: set[str] = set()
    for row in rows:
        name = row["metric"]
        if name not in shown:
            shown.add(name)
            mark = "" if row["admissible"] else ", not admissible"
            click.echo(
                f"{name:<22} {counts[name]:>4} variants, {row['direction']} is better{mark}\n"
                f"    {row['formula']}"
            )
    click.echo(f"{len(rows)} variants of {len(shown)} metrics")


@metrics.command()
@click.argument("metric")
@click.argument("variant", required=False)
@click.option("--problem", help="Values of this problem only.")
@click.option("--values", "all_values", is_flag=True, help="Every model's value of every variant.")
@click.option(
    "--threshold",
    default=0.99,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="Variants with at least this |rank correlation| are one ranking in disguise.",
)
@click.option("--neighbours", default=5, show_default=True, help="Closest variants to show.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def show(
    metric: str,
    variant: str | None,
    problem: str | None,
    all_values: bool,
    threshold: float,
    neighbours: int,
    as_json: bool,
) -> None:
    """Formula, settings and values of a metric, and which variants rank the models alike.

    Rank correlations are over the models both variants have a value for. A group holds
    variants as close as --threshold to its first; what is alike in other metrics is named too.

    \b
    tokenmart metrics show longppl
    tokenmart metrics show longppl --threshold 0.95 --values
    tokenmart metrics show longppl alpha_2_beta_-2@window_4096 --problem no4k
    """
    from warehouse.metrics.near_copies import find_alike, group_alike

    with _connect() as connection:
        about = _rows(connection, _ABOUT, metric=metric, variant=variant)
        if not about:
            _no_such(connection, metric if variant is None else f"{metric} {variant}")
        values = _rows(connection, _VALUES, metric=metric, variant=variant, problem=problem)
        alike = find_alike(connection, metric, variant, problem)
    groups = [] if variant else group_alike(alike, metric, threshold)
    nearest = [pair for rank, pair in _ranked(alike) if rank <= neighbours]
    if as_json:
        content = {
            "catalog": about,
            "values": values,
            "groups": [asdict(group) for group in groups],
            "alike": [asdict(pair) for pair in nearest],
        }
        click.echo(json.dumps(content, indent=2))
        return
    click.echo(f"{metric}: {about[0]['direction']} is better")
    click.echo(about[0]["description"].strip() + "\n")
    for row in about:
        click.echo(f"{row['variant']}  {_settings(row['parameters'])}")
        mine = [value for value in values if value["variant"] == row["variant"]]
        for line in _every(mine) if variant or all_values else _range(mine):
            click.echo(f"    {line}")
    if variant:
        for pair in nearest:
            click.echo(f"    {pair.problem}  like {_like(pair, threshold)}")
        return
    _show_groups(groups, len(about), threshold)
    others = [
        pair
        for _, pair in _ranked(alike)
        if pair.other_metric != metric and abs(pair.spearman) >= threshold - 1e-9
    ]
    if others:
        click.echo(f"\nLike variants of other metrics (|rho| >= {threshold:g}), the closest:")
    seen: set[tuple[str, str]] = set()
    for pair in others:
        if (pair.problem, pair.variant) not in seen:
            seen.add((pair.problem, pair.variant))
            click.echo(f"    {pair.problem}  {pair.variant} like {_like(pair, threshold)}")


def _show_groups(groups: list[Group], variants: int, threshold: float) -> None:
    """Print the groups; without any, say so."""
    click.echo(f"\nOne ranking in disguise (|rho| >= {threshold:g} with the first of a group):")
    if not groups:
        click.echo(f"    none of the {variants} variants")
    for group in groups:
        models = min(pair.models for pair in group.members)
        names = ", ".join(
            f"{pair.other_variant}{' (reversed)' if pair.spearman < 0 else ''}"
            for pair in group.members
        )
        click.echo(f"    {group.problem}, {models} models: {group.leader} = {names}")


def _ranked(alike: list[Alike]) -> Iterator[tuple[int, Alike]]:
    """Each pair with its place among its variant's, from 1; they come closest first."""
    counts: dict[tuple[str, str], int] = {}
    for pair in alike:
        key = (pair.problem, pair.variant)
        counts[key] = counts.get(key, 0) + 1
        yield counts[key], pair


def _like(pair: Alike, threshold: float) -> str:
    same = ""
    if abs(pair.spearman) >= threshold - 1e-9:
        same = "  (the same ranking)" if pair.spearman > 0 else "  (the ranking reversed)"
    return (
        f"{pair.other_metric} {pair.other_variant}: "
        f"{pair.spearman:+.3f} over {pair.models} models{same}"
    )


def _settings(parameters: str) -> str:
    return " ".join(f"{name}={value}" for name, value in json.loads(parameters).items())


def _every(values: list[dict[str, Any]]) -> Iterator[str]:
    for value in values:
        number = "-" if value["value"] is None else f"{value['value']:.6g}"
        note = f"  ({value['reason']})" if value["reason"] else ""
        yield f"{value['problem']}  {value['model_id']:<48} {number:>12}{note}"


def _range(values: list[dict[str, Any]]) -> Iterator[str]:
    """One line per problem: the models at both ends, and how many have a value."""
    for problem in sorted({value["problem"] for value in values}):
        mine = [value for value in values if value["problem"] == problem]
        known = sorted(
            (value["value"], value["model_id"]) for value in mine if value["value"] is not None
        )
        ends = "no value"
        if known:
            ends = f"{known[0][0]:.4g} {known[0][1]} … {known[-1][0]:.4g} {known[-1][1]}"
        yield f"{problem}  {len(known)} of {len(mine)} models: {ends}"


@contextmanager
def _connect() -> Iterator[duckdb.DuckDBPyConnection]:
    """The built warehouse.

    Raises:
        TokenmartError: it holds no metric yet.
    """
    from warehouse.sql.connection import connect_read_only

    with connect_read_only(find_workspace()) as connection:
        found = connection.execute(
            "select 1 from duckdb_tables() where table_name = 'metric_catalog'"
        ).fetchone()
        if found is None:
            raise TokenmartError("metrics: no metric has been built yet; run `tokenmart dbt build`")
        yield connection


def _rows(
    connection: duckdb.DuckDBPyConnection, query: str, **parameters: Any
) -> list[dict[str, Any]]:
    """Rows of a query, as dictionaries."""
    result = connection.execute(query, parameters)
    names = [column[0] for column in result.description or []]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def _no_such(connection: duckdb.DuckDBPyConnection, name: str) -> NoReturn:
    known = sorted(
        {row["metric"] for row in _rows(connection, "select metric from metric_catalog")}
    )
    close = get_close_matches(name.split()[0], known, n=1)
    hint = f"did you mean {close[0]!r}? " if close and close[0] not in name.split() else ""
    raise TokenmartError(
        f"metrics: no {name!r} in the catalogue; {hint}metrics: {', '.join(known)}"
    )


metrics.add_command(new)


@click.command(
    name="dbt",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def dbt_command(arguments: tuple[str, ...]) -> None:
    """Run dbt in dbt_project/, with this checkout's data and database.

    \b
    tokenmart dbt build
    tokenmart dbt run --select perplexity
    """
    from warehouse.metrics import dbt_process
    from warehouse.metrics.variant_files import refuse_uneven_rows

    workspace = find_workspace()
    command = dbt_process.command()
    if command is None:
        raise TokenmartError("dbt: not installed in this environment; run `make setup`")
    refuse_uneven_rows(workspace)
    workspace.database.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [*command, *arguments],
        cwd=workspace.dbt_project,
        env={**os.environ, **workspace.environment()},
        check=False,
    )
    sys.exit(done.returncode)
