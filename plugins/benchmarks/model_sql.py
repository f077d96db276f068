"""Run the dbt project's SQL models on given tables, without dbt, in about a second.

The models are those of the dbt project and of its plugins; this module only replaces `ref`,
`source`, `var` and `config`. So a table can be evaluated whole, while the store has no score that
is later than what its target is predicted from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
from jinja2 import Environment, StrictUndefined

from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.plugins import folders
from warehouse.sql.connection import interruptible


def dicts(
    connection: duckdb.DuckDBPyConnection, query: str, values: object = None
) -> list[dict[str, Any]]:
    """The rows of a query as {column: value}; `values` of its parameters."""
    rows: list[dict[str, Any]] = connection.sql(query, params=values).to_arrow_table().to_pylist()
    return rows


class ModelSql:
    """Builds models of a dbt project in a DuckDB database, each once, with their inputs.

    Args:
        connection: has a table or view with the name of each source table.
        workspace: the checkout with the dbt project.
        variables: dbt variables; others keep the default in the SQL.
        given: models that are in the database already.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        workspace: Workspace,
        variables: Mapping[str, object] | None = None,
        given: Iterable[str] = (),
    ) -> None:
        self._connection = connection
        plugins = [folder / "dbt" / "models" for folder in folders()]
        self._models = [workspace.dbt_project / "models", *plugins]
        self._variables = dict(variables or {})
        self._built: set[str] = set(given)
        self._views: set[str] = set()
        self._environment = Environment(undefined=StrictUndefined, autoescape=False)

    def build(self, name: str) -> str:
        """Build a model and its inputs; returns its name as SQL.

        Raises:
            TokenmartError: there is no such model.
        """
        if name not in self._built:
            sql = self._render(self._file(name).read_text(encoding="utf-8"), name)
            kind = "view" if name in self._views else "table"
            create = f'create {kind} "{name}" as {sql}'
            interruptible(self._connection, partial(self._connection.execute, create))
            self._built.add(name)
        return f'"{name}"'

    def _file(self, name: str) -> Path:
        paths = [path for top in self._models for path in sorted(top.rglob(f"{name}.sql"))]
        if not paths:
            raise TokenmartError(f"{self._models[0]}: no model {name}; update the checkout")
        return paths[0]

    def _render(self, text: str, name: str) -> str:
        """A model's text as SQL, after its inputs have been built."""

        def config(materialized: str = "table") -> str:
            if materialized == "view":
                self._views.add(name)
            return ""

        return self._environment.from_string(text).render(
            ref=self.build,
            source=lambda _, table: f'"{table}"',
            var=lambda key, default: self._variables.get(key, default),
            config=config,
            context={},  # plugins add no relations here
        )
