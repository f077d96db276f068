"""The warehouse's own SQL models on tables at hand, without dbt: a score in a second.

The text of the models is that of dbt_project; only `ref`, `source`, `var` and `config` are filled
in here. Tests hold the marts that dbt builds and these to the same values.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
from jinja2 import Environment, StrictUndefined

from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.plugins import folders


class ModelSql:
    """Builds models of a dbt project in a DuckDB database, each once, with all they read.

    Args:
        connection: contains a table or view by the name of each source table that is read.
        workspace: whose dbt project it is.
        variables: dbt variables; what isn't named keeps the default that the SQL gives.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        workspace: Workspace,
        variables: Mapping[str, object] | None = None,
    ) -> None:
        self._connection = connection
        plugins = [folder / "dbt" / "models" for folder in folders()]
        self._models = [workspace.dbt_project / "models", *plugins]
        self._variables = dict(variables or {})
        self._built: set[str] = set()
        self._views: set[str] = set()
        self._environment = Environment(undefined=StrictUndefined, autoescape=False)

    def build(self, name: str) -> str:
        """Build a model and what it reads; returns its name as SQL.

        Raises:
            TokenmartError: there is no such model.
        """
        if name not in self._built:
            sql = self.render(self._file(name).read_text(encoding="utf-8"), name)
            kind = "view" if name in self._views else "table"
            self._connection.execute(f'create {kind} "{name}" as {sql}')
            self._built.add(name)
        return f'"{name}"'

    def _file(self, name: str) -> Path:
        found = [path for top in self._models for path in sorted(top.rglob(f"{name}.sql"))]
        if not found:
            raise TokenmartError(f"{self._models[0]}: no model {name}; update the checkout")
        return found[0]

    def render(self, text: str, name: str = "") -> str:
        """A model's text as SQL, all that it reads being built."""

        def config(materialized: str = "table") -> str:
            if materialized == "view":
                self._views.add(name)
            return ""

        return self._environment.from_string(text).render(
            ref=self.build,
            source=lambda _, table: f'"{table}"',
            var=lambda key, default: self._variables.get(key, default),
            config=config,
            context={},  # here no plugin adds relations
        )
