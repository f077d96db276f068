"""The variants' CSV files, checked before anything is built from them.

DuckDB names no line of a CSV file. Here every mistake is one line: file, line, variant, column,
and what to do. What only DuckDB knows (types, a column outside an aggregate) is its own error.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from warehouse.errors import TokenmartError, did_you_mean
from warehouse.metrics.registry import Family, models_of

AGGREGATIONS = ("micro", "macro", "weighted", "median", "q10", "q90")
REQUIRED = ("metric", "variant", "aggregation", "over", "numerator", "denominator")
COLUMNS = (
    *("metric", "variant", "core", "aggregation", "unit", "over", "numerator", "denominator"),
    *("where", "tokens", "min_tokens", "min_document_tokens"),
)
"""The columns that macros/variants.sql reads."""

EXPRESSIONS = ("numerator", "denominator", "where", "tokens")
_COUNTS = ("min_tokens", "min_document_tokens")
_WORDS: Mapping[str, Sequence[str]] = {
    "core": ("true",),
    "aggregation": AGGREGATIONS,
    "unit": ("token", "byte"),
}
_FOLDERS = ("models/tokens", "models/probes")
"""Folder of the tables that variants read."""

_TOKEN_ROWS = {
    "tokens": "token_metrics",
    "token_pairs": "token_metrics",
    "key_tokens": "fct_tokens",
    "evaluator_key_tokens": "fct_tokens",
    "published_key_text": "fct_tokens",
}
"""Rows of fct_tokens that `over` names → the model that the metric's SQL must read for it."""

_REF = re.compile(r"\bref\(\s*['\"](\w+)['\"]")


class Variant(NamedTuple):
    """One row of a variants file: `variant`, and its settings as they are written."""

    line: int
    variant: str
    settings: dict[str, str]


Tables = Mapping[str, Sequence[str] | None]
"""Table allowed in `over` → its columns; None if no YAML describes them."""


def check_variants(project: Path, families: Sequence[Family]) -> None:
    """Raise TokenmartError for the first mistake in variants/*.csv."""
    checker, described = ExpressionChecker(), described_columns(project)
    for family in families:
        tables = tables_of(family.sql.read_text(encoding="utf-8"), described)
        _check_file(project / "variants" / f"{family.metric}.csv", family.metric, tables, checker)


def described_columns(project: Path) -> Tables:
    """Tables in models/tokens and models/probes → their columns, from the folders' YAML.

    Raises:
        TokenmartError: a YAML can't be read.
    """
    found: dict[str, Sequence[str] | None] = {}
    for folder in _FOLDERS:
        found |= {path.stem: None for path in sorted((project / folder).glob("*.sql"))}
        for path in sorted((project / folder).glob("*.yml")):
            for entry in models_of(path):
                columns = [str(column["name"]).lower() for column in entry.get("columns") or ()]
                found[str(entry.get("name"))] = columns or None
    return found


def tables_of(sql: str, described: Tables) -> Tables:
    """Tables allowed in `over` for the variants of a metric."""
    read = set(_REF.findall(re.sub(r"--[^\n]*", "", sql)))
    found = {name: described.get("fct_tokens") for name, by in _TOKEN_ROWS.items() if by in read}
    return found | {
        name: described[name]
        for name in sorted(read & described.keys())
        if name not in ("fct_tokens", "token_metrics", "token_units")
    }


def read_variants(path: Path) -> list[Variant]:
    """The rows of a variants file.

    Raises:
        TokenmartError: it has no header, or a row has more or fewer values than columns.
    """
    found = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file)
            columns = next(rows, [])
            _check_header(path, columns)
            for row in rows:
                if row and len(row) != len(columns):
                    raise TokenmartError(
                        f"{path}, line {rows.line_num}: {len(row)} values for {len(columns)} "
                        f"columns: {','.join(row)}; the columns are {','.join(columns)}: leave "
                        "what doesn't apply empty, but keep its comma, and quote an expression "
                        "that has a comma"
                    )
                if row:
                    settings = dict(zip(columns, row, strict=True))
                    found.append(Variant(rows.line_num, settings["variant"], settings))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TokenmartError(f"{path}: can't be read ({error}); write it as UTF-8 CSV") from error
    return found


def in_contexts(variant: str, contexts: Iterable[str]) -> list[str]:
    """The names of a variant in a problem: one for each context, `""` where none is named."""
    return [f"{variant}@{context}" if context else variant for context in contexts]


def _check_header(path: Path, columns: list[str]) -> None:
    for name in REQUIRED:
        if name not in columns:
            raise TokenmartError(
                f"{path}, line 1: no column {name}; the first line names the columns, "
                f"{','.join(REQUIRED)} and others as needed"
            )
    for name in columns:
        if name not in COLUMNS:
            raise TokenmartError(
                f"{path}, line 1: column {name} is unknown; {did_you_mean(name, COLUMNS)}"
                f"the columns are {', '.join(COLUMNS)}"
            )
        if columns.count(name) > 1:
            raise TokenmartError(f"{path}, line 1: column {name} is there twice; remove one")


def _check_file(path: Path, metric: str, tables: Tables, checker: ExpressionChecker) -> None:
    names: dict[str, int] = {}
    for row in read_variants(path):
        for column, wrong in _mistakes(metric, row.settings, tables, checker):
            raise TokenmartError(
                f"{path}, line {row.line}: column {column} of {row.variant or 'the row'} {wrong}"
            )
        if row.variant in names:
            raise TokenmartError(
                f"{path}, line {row.line}: the variant {row.variant} is in line "
                f"{names[row.variant]} already; rename one"
            )
        names[row.variant] = row.line


def _mistakes(
    metric: str, settings: Mapping[str, str], tables: Tables, checker: ExpressionChecker
) -> Iterator[tuple[str, str]]:
    """Columns of a row and what is wrong with them."""
    for column in REQUIRED:
        if not settings[column].strip():
            wanted = {
                "aggregation": f"write one of {', '.join(AGGREGATIONS)}",
                "over": f"write one of {', '.join(tables)}",
                "numerator": "write an SQL aggregate, such as sum(nll)",
                "denominator": "write an SQL aggregate, such as count(*)",
            }
            yield column, f"is empty; {wanted.get(column, 'write a name')}"
    if settings["metric"] != metric:
        yield "metric", f"is {settings['metric']!r}; write {metric}, as the file's name"
    variant = settings["variant"]
    if not variant.isascii() or any(c in "@,'\"" or c.isspace() for c in variant):
        yield "variant", "has a space, a quote or @ in it; use letters, digits, _, . and -"
    for column, words in {**_WORDS, "over": tuple(tables)}.items():
        text = settings.get(column, "")
        if text and text not in words:
            one_of = "write true, or leave it empty"
            if words[1:]:
                one_of = f"{did_you_mean(text, words)}write one of {', '.join(words)}"
            yield column, f"is {text!r}; {one_of}"
    for column in _COUNTS:
        text = settings.get(column, "")
        if text and not (text.isascii() and text.isdigit() and int(text) > 0):
            yield column, f"is {text!r}; write a whole number of at least 1"
    for column in EXPRESSIONS:
        text = settings.get(column, "")
        if text:
            over = settings["over"]
            if wrong := checker.mistake(text, over, tables[over]):
                yield column, wrong


_AROUND = ("select cast(", " as double)")
"""Around an expression, as in macros/variant_sums.sql."""


class ExpressionChecker:
    """Checks expressions by DuckDB's own parser, before anything runs, each text once.

    An expression reads the columns of one row source and nothing else: a subquery or a table
    function could read labels past dbt's lineage graph.
    """

    def __init__(self) -> None:
        import duckdb

        self._connection = duckdb.connect()
        self._parsed: dict[str, Any] = {}
        self._mistakes: dict[tuple[str, str], str] = {}

    def columns(self, text: str) -> set[str]:
        """Columns that a correct expression reads, in lower case."""
        return {names[-1].lower() for names in _columns(self._parse(text)["statements"])}

    def mistake(self, text: str, table: str, columns: Collection[str] | None) -> str:
        """The mistake and what to do; empty without one.

        Args:
            columns: that `table` has, always the same; None where they aren't described.
        """
        if (text, table) not in self._mistakes:
            self._mistakes[text, table] = self._mistake(text, table, columns)
        return self._mistakes[text, table]

    def _mistake(self, text: str, table: str, columns: Collection[str] | None) -> str:
        parsed = self._parse(text)
        if parsed["error"]:
            return f"is no SQL expression: {text}; check its parentheses, quotes and commas"
        expression = self._alone(parsed)
        kinds = {node.get("class") for node in _nodes(parsed["statements"])}
        if "SUBQUERY" in kinds or (expression is None and "BASE_TABLE" in _types(parsed)):
            return f"has a subquery; use columns of {table} only"
        if expression is None:
            return "is more than one expression; write one, with its parentheses closed"
        if "PARAMETER" in kinds:
            return "has a parameter ($ or ?); write its value"
        for name in _functions(expression):
            if name in self._table_functions:
                return f"calls the table function {name}; use columns of {table} only"
        if columns is None:
            return ""
        for names in _columns(expression):
            own = names[1:] if names[1:] and names[0].lower() == table.lower() else names
            if own[0].lower() not in columns:
                return (
                    f"reads the column {own[0]}, which {table} lacks; "
                    f"{did_you_mean(own[0].lower(), columns)}columns: {', '.join(columns)}"
                )
        return ""

    def _parse(self, text: str) -> Any:
        if text not in self._parsed:
            query = text.join(_AROUND)
            found = self._connection.execute("select json_serialize_sql(?)", [query]).fetchall()
            self._parsed[text] = json.loads(found[0][0])
        return self._parsed[text]

    def _alone(self, parsed: Any) -> Any:
        """The expression's tree; None when the text is more than an expression."""
        first, *more = (statement["node"] for statement in parsed["statements"])
        if more or _frame(first) != self._frame_of_one or first["select_list"][1:]:
            return None
        (cast,) = first["select_list"]
        return cast["child"] if cast["type"] == "OPERATOR_CAST" else None

    @cached_property
    def _frame_of_one(self) -> dict[str, Any]:
        return _frame(self._parse("1")["statements"][0]["node"])

    @cached_property
    def _table_functions(self) -> set[str]:
        rows = self._connection.execute(
            "select function_name from duckdb_functions() group by all "
            "having bool_and(function_type in ('table', 'table_macro', 'pragma'))"
        ).fetchall()
        return {name for (name,) in rows}


def _frame(node: dict[str, Any]) -> dict[str, Any]:
    """A select without what it selects."""
    return {key: value for key, value in node.items() if key != "select_list"}


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from _nodes(part)


def _types(parsed: Any) -> set[Any]:
    types = (node.get("type") for node in _nodes(parsed["statements"]))
    return {kind for kind in types if isinstance(kind, str)}  # that of a cast may be a tree


def _functions(tree: Any) -> set[str]:
    return {str(node["function_name"]).lower() for node in _nodes(tree) if "function_name" in node}


def _columns(tree: Any, bound: frozenset[str] = frozenset()) -> Iterator[list[str]]:
    """Names of each column reference, outermost first; a lambda's own parameters aren't columns."""
    if isinstance(tree, dict):
        if tree.get("class") == "COLUMN_REF":
            if tree["column_names"][0] not in bound:
                yield tree["column_names"]
            return
        if tree.get("class") == "LAMBDA":
            own = frozenset(names[0] for names in _columns(tree["lhs"]))
            yield from _columns(tree["expr"], bound | own)
            return
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            yield from _columns(part, bound)
