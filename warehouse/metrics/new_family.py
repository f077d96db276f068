"""The files of a new metric family, ready to build: SQL, YAML with a unit test, variants."""

from __future__ import annotations

import re
from pathlib import Path

from warehouse.errors import TokenmartError
from warehouse.files import write_whole


def write_family(project: Path, name: str, context: str, direction: str) -> list[Path]:
    """Write a family of one formula and two variants, and return the paths of its files.

    Args:
        project: the dbt project's folder.
        name: of the metric; lower-case letters, digits and `_`.
        context: `full` for the tokens after the whole document, `window` for those scored in
            both contexts.
        direction: which values are better, `higher` or `lower`.

    Raises:
        TokenmartError: the name is malformed or taken, or a file can't be written.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise TokenmartError(
            f"metrics new {name}: use lower-case letters, digits and _, starting with a letter"
        )
    folder = project / "models" / "marts" / "custom"
    files = {
        folder / f"{name}.sql": _sql(name, context),
        folder / f"{name}.yml": _yaml(name, context, direction),
        project / "variants" / f"{name}.csv": (
            f"metric,variant,aggregation\n{name},micro,micro\n{name},macro,macro\n"
        ),
    }
    taken = [path for path in project.glob("models/**/*.sql") if path.stem == name]
    taken += [path for path in files if path.exists()]
    if taken:
        raise TokenmartError(
            f"metrics new {name}: {taken[0].relative_to(project.parent)} exists; "
            "choose another name or edit it"
        )
    for path, content in files.items():
        write_whole(path, content)
    return list(files)


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
      - {{name: problem, data_type: varchar}}
      - {{name: variant, data_type: varchar}}
      - {{name: model_id, data_type: varchar}}
      - {{name: doc_id, data_type: integer}}
      - {{name: numerator, data_type: double}}
      - {{name: denominator, data_type: double}}
      - {{name: weight, data_type: double}}
      - {{name: tokens, data_type: bigint}}

unit_tests:
  - name: {name}_by_hand
    description: Two tokens, {signs}1 and {signs}2.
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
          - {{metric: {name}, variant: micro, aggregation: micro}}
    expect:
      rows:
        - {{variant: '{variant}', numerator: 3.0, denominator: 2.0, tokens: 2}}
"""
