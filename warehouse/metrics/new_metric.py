"""The files of a new metric, ready to build: variants, view, description with a unit test, list."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warehouse.errors import TokenmartError
from warehouse.files import write_whole
from warehouse.metrics.registry import FOLDERS, LIST, LISTED, find_families, models_of
from warehouse.metrics.variant_files import ExpressionChecker, described_columns

_FOLDER = "models/marts/custom"
_TOKENS = "models/tokens/_tokens.yml"
_PAIRED = frozenset({"gain", "short_nll", "short_entropy", "short_rank", "short_context_tokens"})
"""Columns of fct_tokens that are null where no shorter context scored the token."""
_WHOLE, _REAL = (0, 1, 40, 5000), (4.0, 0.5, 2.5, 1.0)
"""Made-up values of a unit test's four tokens; they differ widely, so that filters find some."""


@dataclass(frozen=True)
class NewMetric:
    """Definition of a new metric.

    name: lower-case letters, digits and `_`.
    numerator, denominator: SQL aggregates over a document's tokens.
    where: which tokens count, as SQL; empty for all.
    over: `tokens`, each once, or `token_pairs`, those with a gain over a shorter context.
    direction: which values are better, `higher` or `lower`.
    """

    name: str
    numerator: str
    denominator: str
    where: str
    over: str
    direction: str


def write_metric(project: Path, metric: NewMetric) -> list[Path]:
    """Write a metric of two variants, micro and macro; returns the files written or changed.

    Raises:
        TokenmartError: the name is malformed or taken, an expression is wrong, or a file can't be
            read or written.
    """
    name, asked = metric.name, f"metrics new {metric.name}"
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise TokenmartError(
            f"{asked}: use lower-case letters, digits and _, starting with a letter"
        )
    view = project / _FOLDER / f"{name}.sql"
    variants = project / "variants" / f"{name}.csv"
    taken = [path for path in project.glob("models/**/*.sql") if path.stem == name]
    taken += [path for path in (view, variants) if path.exists()]
    if taken:
        raise TokenmartError(
            f"{asked}: {taken[0].relative_to(project.parent)} exists; choose another name, or edit "
            "that file"
        )
    find_families(project)
    columns = described_columns(project).get("fct_tokens")
    checker = ExpressionChecker()
    for option in ("numerator", "denominator", "where"):
        text = getattr(metric, option)
        wrong = checker.mistake(text, metric.over, columns) if text or option != "where" else ""
        if wrong or "\n" in text:
            raise TokenmartError(f"{asked}: --{option} {wrong or 'has a line end; remove it'}")
    _refuse_gains_over_tokens(metric, checker)
    described, listing = project / FOLDERS[_FOLDER], project / LIST
    texts = {
        variants: _variants(metric),
        view: f"-- Formulas: variants/{name}.csv; sums: token_metrics; values: metric_values.\n"
        f"select * exclude (unit_id, definition) from {{{{ ref('token_metrics') }}}}\n"
        f"where metric = '{name}'\n",
        described: _described(described, metric, _sample(project, metric, checker)),
        listing: LISTED.sub(
            lambda found: f"{found[1]}{_listed(found[2], name)}{found[3]}",
            listing.read_text(encoding="utf-8"),
        ),
    }
    for path, text in texts.items():
        write_whole(path, text)
    return list(texts)


def _refuse_gains_over_tokens(metric: NewMetric, checker: ExpressionChecker) -> None:
    """Stop a mean of gains that counts the tokens without a gain in its denominator."""
    named = set(checker.columns(metric.where)) if metric.where else set()
    for option in ("numerator", "denominator"):
        paired = set(checker.columns(getattr(metric, option))) & _PAIRED - named
        if metric.over == "tokens" and paired:
            column = min(paired)
            raise TokenmartError(
                f"metrics new {metric.name}: --{option} reads {column}, which only tokens that a "
                "shorter context scored have; add --over token_pairs, or name the column in "
                f"--where, such as '{column} is not null'"
            )


def _variants(metric: NewMetric) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("metric", "variant", "aggregation", "over", "numerator", "denominator", "where"))
    formula = (metric.over, metric.numerator, metric.denominator, metric.where)
    rows.writerows((metric.name, way, way, *formula) for way in ("micro", "macro"))
    return text.getvalue()


def _listed(names: str, name: str) -> str:
    return "\n".join(sorted([*names.splitlines(), f"    '{name}',"]))


def _described(path: Path, metric: NewMetric, sample: Sequence[Mapping[str, Any]]) -> str:
    """The custom folder's YAML with the metric's entry, and a unit test at its end."""
    text = path.read_text(encoding="utf-8") if path.is_file() else "models:\n"
    models, _, tests = text.partition("\nunit_tests:\n")
    columns = "*per_document" if "&per_document" in models else _COLUMNS
    where = f", over tokens where `{metric.where}`" if metric.where else ""
    entry = f"""
  - name: {metric.name}
    description: >
      Formula: `{metric.numerator} / {metric.denominator}`{where}

      Write what it measures, where the idea comes from, and what its traps are.
    config:
      meta:
        metric: {metric.name}
        family: custom
        direction: {metric.direction}
        admissible: true
        needs: {"full" if metric.over == "tokens" else "window"}
    columns: {columns}
"""
    given = "".join(f"\n          - {_flow(row)}" for row in sample)
    pair = ", pair: window" if metric.over == "token_pairs" else ""
    test = f"""
  - name: {metric.name}_by_hand
    description: The numbers of four made-up tokens; write tokens that show what the metric does.
    model: token_metrics
    overrides:
      macros: {{is_incremental: false}}
      vars: {{only_metrics: [{metric.name}]}}
    given:
      - input: ref('token_units')
        rows:
          - {{unit_id: 1, problem: p, model_id: m, doc_id: 0, document_tokens: 4{pair}}}
      - input: ref('fct_tokens')
        rows:{given}
    expect:
      rows:{_expected(metric, sample)}
"""
    return f"{models.rstrip()}\n{entry}\nunit_tests:\n{tests.strip(chr(10))}{test}".replace(
        "unit_tests:\n\n", "unit_tests:\n"
    )


def _sample(project: Path, metric: NewMetric, checker: ExpressionChecker) -> list[dict[str, Any]]:
    """Four made-up tokens of one document, with the columns that the expressions read."""
    types = {
        str(column["name"]): str(column.get("data_type", "double"))
        for entry in models_of(project / _TOKENS)
        if entry.get("name") == "fct_tokens"
        for column in entry.get("columns") or ()
    }
    texts = filter(None, (metric.numerator, metric.denominator, metric.where))
    read = {name for text in texts for name in checker.columns(text)}
    read |= {"position"} | ({"gain"} if metric.over == "token_pairs" else set())
    rows: list[dict[str, Any]] = []
    for number in range(4):
        row: dict[str, Any] = {"unit_id": 1, "is_first_pair": True}
        for name in sorted(read - row.keys()):
            row[name] = _value(types.get(name, "double"), number)
        rows.append(row)
    return rows


def _value(kind: str, number: int) -> object:
    if kind == "boolean":
        return number % 2 == 0
    if kind == "varchar":
        return "abcd"[number]
    return (_WHOLE if kind.endswith("int") or kind == "integer" else _REAL)[number]


def _expected(metric: NewMetric, sample: Sequence[Mapping[str, Any]]) -> str:
    """The sample's results, computed by DuckDB, as rows of YAML."""
    import duckdb

    suffix = "@window" if metric.over == "token_pairs" else ""
    with duckdb.connect() as connection:
        values = ", ".join(
            f"({', '.join(_literal(value) for value in row.values())})" for row in sample
        )
        try:
            found = connection.execute(
                f"select cast({metric.numerator} as double), cast({metric.denominator} as double), "
                f"count(*) from (values {values}) as {metric.over}({', '.join(sample[0])}) "
                f"where {metric.where or 'true'}"
            ).fetchall()[0]
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise TokenmartError(f"metrics new {metric.name}: {reason}; correct it") from error
    numerator, denominator, tokens = found
    if not tokens or not denominator:
        return " []"
    return "".join(
        f"\n        - {{variant: '{way}{suffix}', numerator: {numerator!r}, "
        f"denominator: {denominator!r}, tokens: {tokens}}}"
        for way in ("micro", "macro")
    )


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else json.dumps(value)


def _flow(row: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{name}: {json.dumps(value)}" for name, value in row.items()) + "}"


_COLUMNS = """&per_document
      - {name: problem, data_type: varchar}
      - {name: metric, data_type: varchar}
      - {name: variant, data_type: varchar}
      - {name: model_id, data_type: varchar}
      - {name: doc_id, data_type: integer}
      - {name: numerator, data_type: double}
      - {name: denominator, data_type: double}
      - {name: weight, data_type: double}
      - {name: tokens, data_type: bigint}"""
