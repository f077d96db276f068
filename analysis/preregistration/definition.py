"""A metric as it is named before the labels are read, and a hash over what it means."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from warehouse.errors import TokenmartError, did_you_mean
from warehouse.metrics.registry import find_families


class RegisteredMetric(BaseModel):
    """One variant of a metric with the direction it is expected to have.

    definition: sha256 over the family's SQL and the variant's row.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str
    variant: str
    direction: Literal["higher", "lower"]
    definition: str

    @property
    def name(self) -> str:
        """`metric/variant`."""
        return f"{self.metric}/{self.variant}"


def define(project: Path, text: str) -> RegisteredMetric:
    """Find what `METRIC/VARIANT` or `METRIC/VARIANT:DIRECTION` names in the metric library.

    Args:
        project: the dbt project.
        text: as given on the command line; the direction is by default the family's.

    Raises:
        TokenmartError: no such metric or variant, or another direction than higher or lower.
    """
    name, _, wanted = text.partition(":")
    metric, _, variant = name.partition("/")
    families = {family.metric: family for family in find_families(project)}
    if metric not in families:
        raise TokenmartError(
            f"--metric {text}: no metric {metric!r}; {did_you_mean(metric, families)}"
            "see `tokenmart metrics list`"
        )
    direction = wanted or families[metric].direction
    if direction not in ("higher", "lower"):
        raise TokenmartError(
            f"--metric {text}: direction {direction!r}; write {name}:higher or {name}:lower"
        )
    return RegisteredMetric(
        metric=metric,
        variant=variant,
        direction="higher" if direction == "higher" else "lower",
        definition=definition_sha256(project, metric, variant),
    )


def definition_sha256(project: Path, metric: str, variant: str) -> str:
    """Hash over the SQL of a metric's family and the row of one variant.

    Raises:
        TokenmartError: no such variant, or its files can't be read.
    """
    table = project / "variants" / f"{metric}.csv"
    sql = next(project.glob(f"models/marts/**/{metric}.sql"), None)
    try:
        with table.open(encoding="utf-8", newline="") as file:
            rows = {row["variant"]: row for row in csv.DictReader(file)}
        code = sql.read_text("utf-8") if sql else ""
    except (OSError, KeyError, ValueError) as error:
        raise TokenmartError(f"{table}: variants of {metric} can't be read ({error})") from error
    base = variant.partition("@")[0]  # what follows names the condition it is computed from
    if base not in rows:
        raise TokenmartError(
            f"--metric {metric}/{variant}: no such variant; {did_you_mean(base, rows)}"
            f"variants are the rows of {table}"
        )
    row = json.dumps(rows[base], sort_keys=True)
    return hashlib.sha256(f"{code}\n{row}".encode()).hexdigest()
