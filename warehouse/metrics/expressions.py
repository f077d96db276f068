"""Check of a variant's SQL expression by DuckDB's own parser, before anything runs.

An expression reads the columns of one row source and nothing else: a subquery or a table function
could read labels past dbt's lineage graph.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any

from warehouse.errors import did_you_mean

_AROUND = ("select cast(", " as double)")
"""Around an expression, as in macros/variant_sums.sql."""


class ExpressionChecker:
    """Parses expressions in a database of its own, each text once."""

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
            text: the expression.
            table: the name of the rows that it reads.
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
