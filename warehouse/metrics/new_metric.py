"""The files of a new metric family, ready to build: SQL, YAML with a unit test, variants."""

from __future__ import annotations

import re
from pathlib import Path

from warehouse.errors import TokenmartError
from warehouse.files import write_whole

_FAR = 1000
"""Tokens since the word last occurred, in the condition that `features` start with."""


def write_family(
    project: Path, name: str, context: str, direction: str, features: bool = False
) -> list[Path]:
    """Write a family of one formula and two variants, and return the paths of its files.

    Args:
        project: the dbt project's folder.
        name: of the metric; lower-case letters, digits and `_`.
        context: `full` for the tokens after the whole document, `window` for those scored in
            both contexts.
        direction: which values are better, `higher` or `lower`.
        features: whether it asks what the text says of a token: its word and when it last occurred.

    Raises:
        TokenmartError: the name is malformed or taken, or a file can't be written.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise TokenmartError(
            f"metrics new {name}: use lower-case letters, digits and _, starting with a letter"
        )
    folder = project / "models" / "marts" / "custom"
    files = {
        folder / f"{name}.sql": _sql(name, context, features),
        folder / f"{name}.yml": _yaml(name, context, direction, features),
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


def _sql(name: str, context: str, features: bool) -> str:
    value = "-sum(logprob)" if context == "full" else "sum(gain)"
    conditions = ["short_context_tokens < context_tokens"] if context == "window" else []
    conditions += [f"word_distance > {_FAR}"] if features else []
    extra = "\n        features = true," if features else ""
    return f"""with {name} as (
    {{{{ token_metric(
        '{name}',
        where = '{" and ".join(conditions) or "position >= 0"}',
        numerator = '{value}',
        denominator = 'count(*)',
        context = '{context}',{extra}
    ) }}}}
)

select * from {name}
"""


def _yaml(name: str, context: str, direction: str, features: bool) -> str:
    rows, units, condition, key, signs, variant = (
        ("stg_token_stats", "int_full_units", "full", "logprob", "-", "micro")
        if context == "full"
        else ("context_pairs", "int_pair_units", "window", "gain", "", "micro@window")
    )
    unit = f"problem: p, model_id: m, condition: {condition}, doc_id: 0"
    seen = "" if context == "full" else ", context_tokens: 9, short_context_tokens: 5"
    formula = "-Σ log p / N" if context == "full" else "Σ (log p_full - log p_short) / N"
    where = "" if context == "full" else ", where the short context is shorter"
    tokens = [(0, 1), (1, 2)]
    given, of_unit, far, left_out = "", unit, "", ""
    if features:
        tokens.append((2, 7))
        distances = [_FAR + 1, _FAR * 5, _FAR]
        given = "".join(
            f"""
          - {{token_features_id: 5, position: {position}, word_distance: {distance}}}"""
            for (position, _), distance in zip(tokens, distances, strict=True)
        )
        given = f"""
      - input: ref('int_token_features')
        rows:{given}"""
        of_unit = f"{unit}, token_features_id: 5"
        far = f", over tokens whose word last occurred more than {_FAR:,} tokens back"
        left_out = f" The word of a third occurred {_FAR:,} tokens back, not more."
    lines = "".join(
        f"""
          - {{{unit}, position: {position}, {key}: {signs}{size}{seen}}}"""
        for position, size in tokens
    )
    return f"""models:
  - name: {name}
    description: >
      Formula: `{formula}`{far}{where}

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
    description: >
      Two tokens, {signs}1 and {signs}2.{left_out}
    model: {name}
    given:
      - input: ref('{rows}')
        rows:{lines}
      - input: ref('{units}')
        rows:
          - {{{of_unit}}}{given}
      - input: ref('stg_metric_variants')
        rows:
          - {{metric: {name}, variant: micro, aggregation: micro}}
    expect:
      rows:
        - {{variant: '{variant}', numerator: 3.0, denominator: 2.0, tokens: 2}}
"""
