"""The record of metrics tested on a problem: every variant built and every idea correlated.

The best of a hundred metrics has to be adjusted for a hundred comparisons, even if ninety of them
were removed from the library since. `<data>/tries/problem=<name>.json` records them with their
values, so that later adjustments count them all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from warehouse.errors import StorageError
from warehouse.files import storage_errors, write_whole
from warehouse.paths import Workspace

if TYPE_CHECKING:
    import duckdb

Kind = Literal["variant", "sql", "values"]

_SAME = 1e-6

_BUILT = """
    select metric, variant, parameters, code, map_from_entries(list((model_id, value)))
    from metric_values
    inner join metric_catalog using (metric, variant)
    where value is not null and problem = ?
    group by all
    order by all
"""


@dataclass(frozen=True)
class MetricRecord:
    """One metric tested: a definition and a value per model.

    metric, variant: its names; an idea has the name given with --name.
    kind: `variant` of the library, `sql` given to a command, or `values` computed elsewhere.
    definition: the variant's parameters and code, the SQL text, or a hash of the values.
    values: model_id → value, as last seen; finite numbers only.
    direction: of an idea, `higher` or `lower`; a variant has that of the catalogue.
    first_seen, last_seen: UTC, as ISO 8601; `record_metrics` sets them.
    """

    metric: str
    variant: str
    kind: Kind
    definition: str
    values: Mapping[str, float]
    direction: str = ""
    first_seen: str = ""
    last_seen: str = ""


def record_metrics(
    workspace: Workspace, problem: str, rows: Iterable[MetricRecord], moment: str = ""
) -> None:
    """Record metrics tested for a problem, or update those already recorded.

    A metric is already recorded if one of the same kind, name and direction has the same
    definition, or the same values for all models of both: an edit without effect is not a new
    metric. Its definition and values are replaced, and values of other models are kept. SQL with
    other values than before (`random()`) is a new one, whatever its definition.

    Args:
        rows: values that aren't finite are left out, and rows without any.
        moment: when they were tested, UTC, as ISO 8601; empty for now.

    Raises:
        StorageError: the file can't be read or written.
    """
    from filelock import FileLock

    path = _path(workspace, problem)
    with storage_errors(path), FileLock(f"{path}.lock"):
        known = _with(_read(path), rows, moment)
        write_whole(path, json.dumps([asdict(row) for row in known], indent=0))


def recorded_metrics(workspace: Workspace, problem: str) -> list[MetricRecord]:
    """All metrics tested on a problem, in the order of their first test.

    Raises:
        StorageError: the file can't be read.
    """
    return _read(_path(workspace, problem))


def tested_besides(
    workspace: Workspace,
    problem: str,
    present: Sequence[MetricRecord],
    tested_now: Iterable[MetricRecord] = (),
) -> list[MetricRecord]:
    """Metrics and ideas tested for a problem that are not among those present.

    An idea tested under two names counts once. Nothing is recorded; `tested_now` count as if they
    were.

    Raises:
        StorageError: the file can't be read.
    """
    here = {_identity(entry) for entry in present}
    named: dict[tuple[str, str, str], list[MetricRecord]] = {}
    for entry in present:
        named.setdefault((entry.kind, entry.metric, entry.variant), []).append(entry)
    besides: dict[tuple[str, ...], MetricRecord] = {}
    for entry in _with(recorded_metrics(workspace, problem), tested_now):
        alike = named.get((entry.kind, entry.metric, entry.variant), ())
        if _identity(entry) not in here and not any(_is_same(entry, one) for one in alike):
            besides.setdefault(_identity(entry), entry)
    return list(besides.values())


def built_metrics(connection: duckdb.DuckDBPyConnection, problem: str) -> list[MetricRecord]:
    """The variants that have values for a problem in the warehouse."""
    return [
        MetricRecord(
            metric,
            variant,
            "variant",
            json.dumps({"parameters": json.loads(parameters), "code": code}),
            values,
        )
        for metric, variant, parameters, code, values in connection.execute(
            _BUILT, [problem]
        ).fetchall()
    ]


def _identity(entry: MetricRecord) -> tuple[str, ...]:
    metric = entry.metric if entry.kind == "variant" else ""
    values = ""
    if entry.kind == "sql":
        values = " ".join(f"{m} {x:.5g}" for m, x in sorted(entry.values.items()))
    return entry.kind, metric, entry.variant, entry.definition, entry.direction, values


def _path(workspace: Workspace, problem: str) -> Path:
    return workspace.data / "tries" / f"problem={problem}.json"


def _read(path: Path) -> list[MetricRecord]:
    try:
        content: list[dict[str, Any]] = json.loads(path.read_bytes())
        return [MetricRecord(**entry) for entry in content]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise StorageError(
            f"{path}: can't be read ({error}); restore it from a backup: without it, metrics "
            "tested before are no longer counted. To start a new record, move it away"
        ) from error


def _with(
    known: list[MetricRecord], rows: Iterable[MetricRecord], moment: str = ""
) -> list[MetricRecord]:
    """The record with these rows added to it, or updated in it."""
    now = moment or datetime.now(timezone.utc).isoformat(timespec="seconds")
    for row in rows:
        values = {m: float(x) for m, x in row.values.items() if math.isfinite(x)}
        if values:
            _add(known, replace(row, values=values, first_seen=now, last_seen=now))
    return known


def _add(known: list[MetricRecord], row: MetricRecord) -> None:
    for place, entry in enumerate(known):
        if _is_same(entry, row):
            known[place] = replace(
                row, values={**entry.values, **row.values}, first_seen=entry.first_seen
            )
            return
    known.append(row)


def _is_same(one: MetricRecord, other: MetricRecord) -> bool:
    """Whether both have one name, and one definition or the same values for their common models."""
    names = [(each.kind, each.metric, each.variant, each.direction) for each in (one, other)]
    if names[0] != names[1]:
        return False
    models = one.values.keys() & other.values.keys()
    alike = all(math.isclose(one.values[m], other.values[m], rel_tol=_SAME) for m in models)
    if one.kind == "sql" and models:
        return alike
    return one.definition == other.definition or (bool(models) and alike)
