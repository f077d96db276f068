"""Catalogue entries and values of the metrics, as rows: as built, or as the files have them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warehouse.errors import TokenmartError, did_you_mean
from warehouse.metrics.near_duplicates import Census, Correlation, NearDuplicates, is_near, ranked
from warehouse.metrics.registry import find_families
from warehouse.metrics.variant_files import in_contexts, read_variants
from warehouse.paths import Workspace
from warehouse.terminal import counted

if TYPE_CHECKING:
    import duckdb

    from warehouse.problem.spec import Problem


Row = dict[str, Any]

_TABLES = """
    create table metric_catalog (
        metric varchar, variant varchar, family varchar, parameters varchar, core boolean,
        direction varchar, admissible boolean, needs varchar, transform varchar, caution varchar,
        formula varchar, description varchar
    );
    create table metric_values (
        problem varchar, metric varchar, variant varchar, model_id varchar, value double,
        reason varchar
    );
"""


@contextmanager
def open_catalog(workspace: Workspace) -> Iterator[duckdb.DuckDBPyConnection]:
    """The built warehouse, read-only.

    Raises:
        TokenmartError: it contains no metric yet.
    """
    from warehouse.sql.connection import connect_read_only

    with connect_read_only(workspace) as connection:
        if not _rows(connection, "from duckdb_tables() where table_name = 'metric_catalog'"):
            raise TokenmartError("metrics: no metric has been built yet; run `tokenmart dbt build`")
        yield connection


def unbuilt_catalog(project: Path) -> duckdb.DuckDBPyConnection:
    """A database in memory with `metric_catalog` from a dbt project's files, and no values.

    Raises:
        TokenmartError: a family's YAML or variants can't be read; see `find_families`.
    """
    import duckdb

    connection = duckdb.connect()
    connection.execute(_TABLES)
    connection.begin()
    for family in find_families(project):
        formula = re.search(r"`([^`]+)`", family.description)
        for row in read_variants(project / "variants" / f"{family.metric}.csv"):
            names = ("aggregation", "over", "numerator", "denominator")
            parameters = {name: row.settings[name] for name in names}
            parameters["where"] = row.settings.get("where") or "true"
            of_tokens = (row.settings.get("unit") or "token") == "token"
            values = [
                *(family.metric, row.variant, family.family, json.dumps(parameters)),
                *(row.settings.get("core") == "true", family.direction, family.admissible),
                *(family.needs, family.transform if of_tokens else None, family.caution),
                *(formula[1] if formula else None, family.description),
            ]
            places = ", ".join("?" * len(values))
            connection.execute(f"insert into metric_catalog values ({places})", values)
    return connection.commit()


def entries(
    connection: duckdb.DuckDBPyConnection,
    metric: str | None,
    variant: str | None = None,
    family: str | None = None,
    admissible: bool = False,
) -> list[Row]:
    """Catalogue entries, by family, metric and variant; without its `@context`, every context's.

    Raises:
        TokenmartError: the named metric, variant or family isn't there.
    """
    rows = _rows(
        connection,
        """
        from metric_catalog
        where coalesce(metric = $metric, true)
            and coalesce($variant in (variant, split_part(variant, '@', 1)), true)
            and coalesce(family = $family, true)
            and (not $admissible or admissible)
        order by family, metric, variant
        """,
        metric=metric,
        variant=variant,
        family=family,
        admissible=admissible,
    )
    if rows or not (asked := metric or family):
        return rows
    raise _unknown_variant(connection, asked, variant) if variant else _unknown(connection, asked)


def in_problem(rows: Sequence[Row], problem: Problem) -> list[Row]:
    """Entries of `unbuilt_catalog` under the names that they have in a problem.

    Raises:
        TokenmartError: none of them can be computed in it.
    """
    contexts = problem.contexts
    found = [
        {**row, "variant": name}
        for row in rows
        for name in in_contexts(row["variant"], contexts.get(row["needs"], ()))
    ]
    if not found:
        needed = sorted({row["needs"] for row in rows})
        raise TokenmartError(
            f"problem {problem.name}: no context of the kind {' or '.join(needed) or 'asked for'}, "
            "which these metrics need; add a probe to its file (docs/how_to/probes.md)"
        )
    return found


def values(
    connection: duckdb.DuckDBPyConnection, metric: str, variant: str | None, problem: str | None
) -> list[Row]:
    """Values of a metric for each problem, variant and model."""
    return _rows(
        connection,
        """
        select * exclude (metric)
        from metric_values
        where metric = $metric
            and coalesce($variant in (variant, split_part(variant, '@', 1)), true)
            and coalesce(problem = $problem, true)
        order by problem, variant, model_id
        """,
        metric=metric,
        variant=variant,
        problem=problem,
    )


def problems(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Names of the problems that the warehouse has values of."""
    rows = _rows(connection, "select distinct problem from metric_values order by problem")
    return [row["problem"] for row in rows]


def _rows(connection: duckdb.DuckDBPyConnection, query: str, **parameters: Any) -> list[Row]:
    result = connection.execute(query, parameters)
    names = [column[0] for column in result.description or []]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def _unknown(connection: duckdb.DuckDBPyConnection, name: str) -> TokenmartError:
    rows = _rows(connection, "select distinct metric from metric_catalog order by metric")
    known = [row["metric"] for row in rows]
    return TokenmartError(
        f"metrics: no {name!r} in the catalogue; {did_you_mean(name, known)}"
        f"metrics: {', '.join(known)}"
    )


def _unknown_variant(
    connection: duckdb.DuckDBPyConnection, metric: str, variant: str
) -> TokenmartError:
    known = [row["variant"] for row in entries(connection, metric)]
    return TokenmartError(
        f"metrics: {metric} has no variant {variant!r}; {did_you_mean(variant, known)}"
        f"`tokenmart metrics show {metric}` lists those in the warehouse, `tokenmart metrics list "
        f"--problem PROBLEM --metric {metric}` all"
    )


def list_metrics(rows: Sequence[Row]) -> Iterator[str]:
    """One entry per metric: how many variants, which way is better, formula, caution."""
    counts = Counter(row["metric"] for row in rows)
    core = Counter(row["metric"] for row in rows if row.get("core"))
    first = {row["metric"]: row for row in reversed(rows)}
    for name, count in sorted(counts.items(), key=lambda pair: not core[pair[0]]):
        row = first[name]
        mark = "" if row["admissible"] else ", not admissible"
        built = f" ({core[name]} in the core)" if core else ""
        variants = counted(count, "variant")
        yield f"{name:<22} {variants:>12}{built}, {row['direction']} is better{mark}"
        yield f"    {row['formula']}"
        if row.get("caution"):
            yield f"    caution: {row['caution']}"
    some = f"; {core.total()} in the core, which is built without `grids`" if core else ""
    yield f"{counted(len(rows), 'variant')} of {counted(len(counts), 'metric')}{some}"


def list_variants(rows: Sequence[Row]) -> Iterator[str]:
    """One line per variant: its name and settings."""
    for row in rows:
        yield f"{row['variant']}  {_settings(row)}"


def list_names(rows: Sequence[Row]) -> Iterator[str]:
    """One line per variant of a problem: METRIC/VARIANT, as commands take it, and settings.

    The core comes first, which `dbt run` builds; behind it what the variable grids adds.
    """
    with_core = {row["metric"] for row in rows if row["core"]}  # without one, all are built
    core = [row for row in rows if row["core"] or row["metric"] not in with_core]
    others = [row for row in rows if row["core"] is not True and row["metric"] in with_core]
    for row in [*core, *others]:
        if others and row is others[0]:
            yield f"built with `tokenmart dbt run --vars 'grids: true'`: {len(others)} more"
        mark = "" if row["admissible"] else "  (not admissible)"
        yield f"{row['metric']}/{row['variant']}  {_settings(row)}{mark}"
    metrics = counted(len({row["metric"] for row in rows}), "metric")
    yield f"{counted(len(rows), 'variant')} of {metrics}; {len(core)} in the core"


def how_many(entries: Sequence[Row], written: int, problem: str | None) -> str:
    """Number of a metric's variants shown, and how to list all.

    Args:
        written: how many its variants file has.
    """
    metric = entries[0]["metric"]
    shown = len({row["variant"].partition("@")[0] for row in entries})
    grids = f"tokenmart dbt run --vars 'grids: [{metric}]'"
    some = f"; the others come with `{grids}`" if shown < written else ""
    return (
        f"\n{shown} of {written} variants{some}; all names in a problem: "
        f"`tokenmart metrics list --problem {problem or 'PROBLEM'} --metric {metric}`"
    )


def describe(entries: Sequence[Row], values: Sequence[Row], every_value: bool) -> Iterator[str]:
    """Direction, caution and description of a metric, then each variant with settings and values.

    Args:
        every_value: one line per model, instead of one per problem.
    """
    yield f"{entries[0]['metric']}: {entries[0]['direction']} is better"
    if entries[0].get("caution"):
        yield f"Caution: {entries[0]['caution']}"
    yield entries[0]["description"].strip() + "\n"
    for row in entries:
        yield from list_variants([row])
        own = [value for value in values if value["variant"] == row["variant"]]
        for line in _each_value(own) if every_value else _range(own):
            yield f"    {line}"


def closest_variants(closest: Sequence[Correlation], threshold: float) -> Iterator[str]:
    """One line per variant that ranks the models like the one shown, or nearly so."""
    for pair in closest:
        yield f"    {pair.problem}  like {_like(pair, threshold)}"


def near_duplicates(
    groups: Sequence[NearDuplicates],
    correlations: Sequence[Correlation],
    metric: str,
    variants: int,
    threshold: float,
) -> Iterator[str]:
    """Groups of near-duplicates within a metric, and the closest in other metrics."""
    yield f"\nNear-duplicates (|rho| >= {threshold:g} with the first of a group):"
    if not groups:
        yield f"    none of the {variants} variants"
    for group in groups:
        models = min(pair.models for pair in group.members)
        names = ", ".join(
            f"{pair.other_variant}{' (reversed)' if pair.spearman < 0 else ''}"
            for pair in group.members
        )
        yield f"    {group.problem}, {models} models: {group.leader} = {names}"
    elsewhere: dict[tuple[str, str], Correlation] = {}
    for _, pair in ranked(correlations):
        if pair.other_metric != metric and is_near(pair, threshold):
            elsewhere.setdefault((pair.problem, pair.variant), pair)
    if elsewhere:
        yield f"\nNear-duplicates in other metrics (|rho| >= {threshold:g}), the closest of each:"
    for pair in elsewhere.values():
        yield f"    {pair.problem}  {pair.variant} like {_like(pair, threshold)}"


def census(found: Census) -> Iterator[str]:
    """Numbers of variants and of different rankings, near-duplicates, and variants without
    values.
    """
    yield (
        f"{found.problem}: {len(found.variants)} variants, {found.rankings} different rankings; "
        f"core: {found.core_variants} variants, {found.core_rankings} different rankings"
    )
    for names in found.alike:
        yield f"    alike: {' = '.join(names)}"
    for reason, names in found.without_value.items():
        yield f"    no value ({reason}): {', '.join(names)}"


def _like(pair: Correlation, threshold: float) -> str:
    same = ""
    if is_near(pair, threshold):
        same = "  (the same ranking)" if pair.spearman > 0 else "  (the ranking reversed)"
    return (
        f"{pair.other_metric} {pair.other_variant}: "
        f"{pair.spearman:+.3f} over {pair.models} models{same}"
    )


def _settings(row: Row) -> str:
    """`micro over tokens: sum(nll) / count(*) where …`; of a table of scores what it has.

    `exp of …` where the combined value is exponentiated last.
    """
    found = json.loads(row["parameters"])
    if "numerator" not in found:
        return " ".join(f"{name}={value}" for name, value in found.items())
    formula = f"{_factor(found['numerator'])} / {_factor(found['denominator'])}"
    where = found.get("where") or "true"
    which = "" if where == "true" else f" where {where}"
    last = f"{row['transform']} of " if row.get("transform") else ""
    return f"{last}{found['aggregation']} over {found['over']}: {formula}{which}"


def _factor(expression: str) -> str:
    """In parentheses, unless it is a single call or number."""
    inner = expression
    while (less := re.sub(r"\([^()]*\)", "", inner)) != inner:
        inner = less
    return expression if re.fullmatch(r"\w+", inner) else f"({expression})"


def _each_value(values: Sequence[Row]) -> Iterator[str]:
    for value in values:
        number = "-" if value["value"] is None else f"{value['value']:.6g}"
        note = f"  ({value['reason']})" if value["reason"] else ""
        yield f"{value['problem']}  {value['model_id']:<48} {number:>12}{note}"


def _range(values: Sequence[Row]) -> Iterator[str]:
    """One line per problem: the models at both ends, and how many have a value."""
    for problem in sorted({value["problem"] for value in values}):
        own = [value for value in values if value["problem"] == problem]
        known = sorted(
            (value["value"], value["model_id"]) for value in own if value["value"] is not None
        )
        ends = "no value"
        if known:
            ends = f"{known[0][0]:.4g} {known[0][1]} … {known[-1][0]:.4g} {known[-1][1]}"
        yield f"{problem}  {len(known)} of {len(own)} models: {ends}"
