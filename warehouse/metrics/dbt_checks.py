"""What dbt-duckdb asks before it opens the database (profiles.yml): is the metric library whole?"""

from __future__ import annotations

from typing import Any

from dbt.adapters.duckdb.credentials import DuckDBCredentials
from dbt.adapters.duckdb.plugins import BasePlugin
from dbt_common.exceptions import DbtRuntimeError

from warehouse.errors import TokenmartError
from warehouse.metrics.registry import find_families, refresh_list
from warehouse.metrics.variant_files import check_variants
from warehouse.paths import find_workspace


class Plugin(BasePlugin):
    """Stops a run, however dbt was started, that would leave a family or a variant out."""

    def update_connection_config(self, creds: DuckDBCredentials, config: dict[str, Any]) -> None:
        """Check families and variants, and bring the list of families up to date.

        Raises:
            DbtRuntimeError: a mistake, in one line; or the list had to be written anew, after dbt
                had read the old one.
        """
        project = find_workspace().dbt_project
        try:
            check_variants(project, find_families(project))
            changed = refresh_list(project)
        except TokenmartError as error:
            raise DbtRuntimeError(error.format_message()) from error
        if changed is not None:
            raise DbtRuntimeError(
                f"{project}: the list of metric families was out of date and is written anew "
                f"({changed}); run the same command again"
            )
