"""`tokenmart metrics`: what the metric library holds, and the start of a metric of one's own."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import click

from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace

if TYPE_CHECKING:
    import duckdb

_CATALOG = """
    select
        metric,
        variant,
        family,
        direction,
        admissible,
        formula
    from metric_catalog
    where coalesce(metric = $metric, true)
        and coalesce(family = $family, true)
        and (not $admissible or admissible)
    order by family, metric, variant
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

_DISGUISES = """
    with ranked as (
        select
            problem,
            metric,
            variant,
            model_id,
            rank() over per_variant + (count(*) over same_value - 1) / 2 as place,
            count(*) over (partition by problem, metric, variant) as models
        from metric_values
        where value is not null
            and coalesce(problem = $problem, true)
        window
            per_variant as (partition by problem, metric, variant order by value),
            same_value as (partition by problem, metric, variant, value)
    ),

    pairs as (
        select
            ranked.problem,
            ranked.variant,
            other.metric as other_metric,
            other.variant as other_variant,
            count(*) as models,
            corr(ranked.place, other.place) as spearman
        from ranked
        inner join ranked as other
            on ranked.problem = other.problem
            and ranked.model_id = other.model_id
            and ranked.models = other.models
        where ranked.metric = $metric
            and coalesce(ranked.variant = $variant, true)
            and (other.metric != ranked.metric or other.variant != ranked.variant)
        group by all
        having count(*) >= 3
    )

    select * from pairs
    where isfinite(spearman)
    qualify row_number() over (
            partition by problem, variant
            order by abs(spearman) desc, other_metric, other_variant
        ) <= $neighbours
    order by problem, variant, abs(spearman) desc, other_metric, other_variant
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
    """All metrics with formula and direction; with --metric, its variants.

    \b
    tokenmart metrics list
    tokenmart metrics list --metric longppl
    tokenmart metrics list --admissible --json
    """
    rows = _rows(_CATALOG, metric=metric, family=family, admissible=admissible)
    if not rows and (metric or family):
        _no_such(metric or family or "")
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if metric:
        for row in rows:
            click.echo(row["variant"])
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
@click.option("--neighbours", default=5, show_default=True, help="Closest variants to show.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def show(
    metric: str, variant: str | None, problem: str | None, neighbours: int, as_json: bool
) -> None:
    """Formula, settings and values of a metric, and what ranks the models alike.

    Two variants with a rank correlation of 1 or -1 are the same thing in disguise.

    \b
    tokenmart metrics show longppl
    tokenmart metrics show longppl alpha_2_beta_-2@window_4096 --problem no4k
    """
    about = _rows(
        "select * from metric_catalog where metric = $metric and coalesce(variant = $variant, true)"
        " order by variant",
        metric=metric,
        variant=variant,
    )
    if not about:
        _no_such(metric if variant is None else f"{metric} {variant}")
    values = _rows(_VALUES, metric=metric, variant=variant, problem=problem)
    alike = _rows(
        _DISGUISES, metric=metric, variant=variant, problem=problem, neighbours=neighbours
    )
    if as_json:
        click.echo(json.dumps({"catalog": about, "values": values, "alike": alike}, indent=2))
        return
    click.echo(f"{metric}: {about[0]['direction']} is better")
    click.echo(about[0]["description"].strip() + "\n")
    for row in about:
        click.echo(f"{row['variant']}  {row['parameters']}")
        for value in (v for v in values if v["variant"] == row["variant"]):
            number = "-" if value["value"] is None else f"{value['value']:.6g}"
            note = f"  ({value['reason']})" if value["reason"] else ""
            click.echo(f"    {value['problem']}  {value['model_id']:<48} {number:>12}{note}")
        for other in (a for a in alike if a["variant"] == row["variant"]):
            same = "  the same ranking" if abs(other["spearman"]) > 1 - 1e-9 else ""
            click.echo(
                f"    {other['problem']}  like {other['other_metric']} "
                f"{other['other_variant']}: {other['spearman']:+.3f}{same}"
            )


@metrics.command()
@click.argument("name")
@click.option(
    "--context",
    type=click.Choice(["full", "window"]),
    default="full",
    show_default=True,
    help="Tokens after the whole document, or tokens scored in both contexts (with `gain`).",
)
@click.option(
    "--direction",
    type=click.Choice(["higher", "lower"]),
    default="lower",
    show_default=True,
    help="Which values are better.",
)
def new(name: str, context: str, direction: str) -> None:
    """Write the SQL, the YAML, the variants and a unit test of a new metric.

    \b
    tokenmart metrics new late_surprise
    tokenmart metrics new look_back --context window --direction higher
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise TokenmartError(
            f"metrics new {name}: use lower-case letters, digits and _, starting with a letter"
        )
    project = find_workspace().dbt_project
    taken = [path for path in project.glob("models/**/*.sql") if path.stem == name]
    if taken:
        raise TokenmartError(
            f"metrics new {name}: {taken[0].relative_to(project.parent)} exists; "
            "choose another name or edit it"
        )
    values = project / "models" / "marts" / "metric_values.sql"
    text = values.read_text(encoding="utf-8")
    last = text.rfind("    select * from {{ ref(")
    if last < 0:
        raise TokenmartError(
            f"{values}: no line `select * from {{{{ ref('…') }}}}` to add after; mend the file"
        )
    end = text.index("\n", last) + 1
    custom = project / "models" / "marts" / "custom"
    written = {
        custom / f"{name}.sql": _sql(name, context),
        custom / f"{name}.yml": _yaml(name, context, direction),
        project / "variants" / f"{name}.csv": (
            f"metric,variant,aggregation\n{name},micro,micro\n{name},macro,macro\n"
        ),
        values: text[:end]
        + f"    union all by name\n    select * from {{{{ ref('{name}') }}}}\n"
        + text[end:],
    }
    for path, content in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
        click.echo(f"wrote {path.relative_to(project.parent)}")
    click.echo("next: edit the SQL and the test, then `tokenmart dbt build`")


def _sql(name: str, context: str) -> str:
    value = "-sum(logprob)" if context == "full" else "sum(gain)"
    return f"""with {name} as (
    {{{{ token_metric(
        '{name}',
        where = 'position >= 0',
        numerator = '{value}',
        denominator = 'count(*)',
        context = '{context}',
    ) }}}}
)

select * from {name}
"""


def _yaml(name: str, context: str, direction: str) -> str:
    columns = "".join(
        f"      - name: {column}\n        data_type: {type_}\n"
        for column, type_ in (
            ("problem", "varchar"),
            ("metric", "varchar"),
            ("variant", "varchar"),
            ("model_id", "varchar"),
            ("value", "double"),
            ("tokens", "bigint"),
            ("documents", "bigint"),
            ("reason", "varchar"),
        )
    )
    rows, units, probe, key, signs, variant = (
        ("tokens", "int_full_units", "full", "logprob", "-", "micro")
        if context == "full"
        else ("context_pairs", "int_pair_units", "window", "gain", "", "micro@window")
    )
    return f"""models:
  - name: {name}
    description: >
      Formula: `{"-Σ log p / N" if context == "full" else "Σ (log p_full - log p_short) / N"}`

      Say what it measures and where the idea comes from.
    config:
      meta:
        metric: {name}
        family: custom
        direction: {direction}
        admissible: true
        needs: {context}
    columns:
{columns}    data_tests:
      - one_row_per:
          arguments:
            columns: [problem, variant, model_id]

unit_tests:
  - name: {name}_by_hand
    description: Two tokens, {signs}1 and {signs}2, make 1.5.
    model: {name}
    given:
      - input: ref('{rows}')
        rows:
          - {{problem: p, model_id: m, probe: {probe}, doc_id: 0, position: 0, {key}: {signs}1}}
          - {{problem: p, model_id: m, probe: {probe}, doc_id: 0, position: 1, {key}: {signs}2}}
      - input: ref('{units}')
        rows:
          - {{problem: p, model_id: m, probe: {probe}, doc_id: 0}}
      - input: ref('stg_metric_variants')
        rows:
          - {{metric: {name}, variant: micro, aggregation: micro, min_tokens: 1}}
    expect:
      rows:
        - {{variant: '{variant}', value: 1.5, tokens: 2, documents: 1}}
"""


def _rows(query: str, **parameters: Any) -> list[dict[str, Any]]:
    """Rows of a query on the built warehouse, as dictionaries."""
    from warehouse.database import connect_read_only

    with connect_read_only(find_workspace()) as connection:
        _require_catalog(connection)
        used = {name: value for name, value in parameters.items() if f"${name}" in query}
        result = connection.execute(query, used)
        names = [column[0] for column in result.description or []]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def _require_catalog(connection: duckdb.DuckDBPyConnection) -> None:
    found = connection.execute(
        "select 1 from duckdb_tables() where table_name = 'metric_catalog'"
    ).fetchone()
    if found is None:
        raise TokenmartError("metrics: no metric has been built yet; run `tokenmart dbt build`")


def _no_such(name: str) -> None:
    known = sorted({row["metric"] for row in _rows("select metric from metric_catalog")})
    raise TokenmartError(f"metrics: no {name!r} in the catalogue; metrics: {', '.join(known)}")
