"""`tokenmart metrics new`: the files of a metric of one's own, ready to build."""

from __future__ import annotations

import re

import click

from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace


@click.command()
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
    rows, units, condition, key, signs, variant = (
        ("stg_token_stats", "int_full_units", "full", "logprob", "-", "micro")
        if context == "full"
        else ("context_pairs", "int_pair_units", "window", "gain", "", "micro@window")
    )
    unit = f"problem: p, model_id: m, condition: {condition}, doc_id: 0"
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
          - {{{unit}, position: 0, {key}: {signs}1}}
          - {{{unit}, position: 1, {key}: {signs}2}}
      - input: ref('{units}')
        rows:
          - {{{unit}}}
      - input: ref('stg_metric_variants')
        rows:
          - {{metric: {name}, variant: micro, aggregation: micro, min_tokens: 1}}
    expect:
      rows:
        - {{variant: '{variant}', value: 1.5, tokens: 2, documents: 1}}
"""
