"""Check before dbt-duckdb opens the database (profiles.yml): is the metric library complete?"""

from __future__ import annotations

from typing import Any

from dbt.adapters.duckdb.credentials import DuckDBCredentials
from dbt.adapters.duckdb.plugins import BasePlugin
from dbt_common.exceptions import DbtRuntimeError

from warehouse.errors import TokenmartError
from warehouse.metrics.registry import find_families
from warehouse.metrics.variant_files import check_variants
from warehouse.paths import find_workspace


class Plugin(BasePlugin):
    """Stops a run, however dbt was started, before it reads a wrong family or variant."""

    def update_connection_config(self, creds: DuckDBCredentials, config: dict[str, Any]) -> None:
        """Check families and variants.

        Raises:
            DbtRuntimeError: the first mistake, in one line.
        """
        project = find_workspace().dbt_project
        try:
            check_variants(project, find_families(project))
        except TokenmartError as error:
            raise DbtRuntimeError(error.format_message()) from error
