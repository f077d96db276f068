"""The record of metrics tested on a problem: every variant built and every idea correlated.

The best of a hundred metrics has to be adjusted for a hundred comparisons, even if ninety of them
were removed from the library since. `<data>/tested/problem=<name>.json` records them with their
values, so that later adjustments count them all; and the models with their families and series, as
they were at the first test. Each entry has a hash of itself and of the entry before, so that an
edit is noticed.

A problem is known by its target, too: what was tested against the same scores of the same models
under another name counts. What was tested in another folder is not known here.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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

MISSING_AFTER_SECONDS = 24 * 3600.0
"""Age of a build from which a record that isn't there may have been lost."""

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


@dataclass(frozen=True)
class GroupedModel:
    """A model at its first test: what values are stored under, and its groups."""

    model_id: str
    family: str
    series: str


@dataclass(frozen=True)
class KnownTarget:
    """What metrics are tested against.

    sha256: of the scores, see `target_sha256`.
    models: full id → the model, as it is now.
    """

    sha256: str
    models: Mapping[str, GroupedModel]


@dataclass(frozen=True)
class RecordOfTests:
    """What was tested for one problem.

    entries: in the order of their first test.
    models: full id → the model at its first test.
    targets: the hashes of all targets.
    """

    entries: tuple[MetricRecord, ...] = ()
    models: Mapping[str, GroupedModel] = field(default_factory=dict)
    targets: tuple[str, ...] = ()

    @property
    def since(self) -> str:
        """The day of the first test (UTC); without one, today."""
        return min((entry.first_seen for entry in self.entries), default=_now())[:10]

    def changes(self, target: KnownTarget) -> tuple[str, ...]:
        """Models that were left out since, or put into another family or series."""
        changes = []
        for full_id, model in self.models.items():
            now = target.models.get(full_id)
            if now is None:
                changes.append(f"{full_id} was left out")
            elif (now.family, now.series) != (model.family, model.series):
                changes.append(f"{full_id} was put into another family or series")
        return tuple(changes)


def target_sha256(scores: Mapping[str, float]) -> str:
    """A hash of the scores by full id, to 10 digits, in any order."""
    lines = [f"{full_id} {score:.10g}\n" for full_id, score in sorted(scores.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def record_metrics(
    workspace: Workspace,
    problem: str,
    rows: Iterable[MetricRecord],
    target: KnownTarget,
    moment: str = "",
) -> None:
    """Record metrics tested for a problem, or update those already recorded.

    A metric is already recorded if one of the same kind, name and direction has the same
    definition, or the same values for all models of both: an edit without effect is not a new
    metric. Its definition and values are replaced, and values of other models are kept. SQL with
    other values than before (`random()`) is a new one, whatever its definition.

    Args:
        rows: values that aren't finite are left out, and rows without any.
        target: what they were tested against; models keep the labels of their first test.
        moment: when they were tested, UTC, as ISO 8601; empty for now.

    Raises:
        StorageError: the file can't be read or written.
    """
    from filelock import FileLock

    path = _path(workspace, problem)
    with storage_errors(path), FileLock(f"{path}.lock"):
        before = _recorded(workspace, problem)
        record = RecordOfTests(
            entries=tuple(_with(before.entries, rows, moment)),
            models={**target.models, **before.models},
            targets=tuple(dict.fromkeys([*before.targets, target.sha256])),
        )
        write_whole(path, json.dumps(_written(record), indent=0))
        _earlier_path(workspace, problem).unlink(missing_ok=True)


def recorded_metrics(workspace: Workspace, problem: str) -> list[MetricRecord]:
    """All metrics recorded as tested for a problem, in the order of their first test.

    Raises:
        StorageError: the file can't be read.
    """
    return list(_recorded(workspace, problem).entries)


def tested_record(workspace: Workspace, problem: str, target: KnownTarget) -> RecordOfTests:
    """What was tested for a problem, and under other names against the same target.

    Raises:
        StorageError: a file can't be read.
    """
    recorded = _recorded(workspace, problem)
    entries, models = list(recorded.entries), dict(recorded.models)
    for path in sorted(_path(workspace, problem).parent.glob("problem=*.json")):
        if path == _path(workspace, problem):
            continue
        other = _read(path)
        if target.sha256 in other.targets:
            ids = {
                model.model_id: target.models[full_id].model_id
                for full_id, model in other.models.items()
                if full_id in target.models
            }
            for entry in other.entries:
                values = {ids.get(m, m): value for m, value in entry.values.items()}
                entries.append(replace(entry, values=values))
            for full_id, model in other.models.items():
                models.setdefault(full_id, model)
    return RecordOfTests(tuple(entries), models, recorded.targets)


def may_be_lost(workspace: Workspace, record: RecordOfTests) -> bool:
    """Whether nothing is recorded although the database was built more than a day ago."""
    if record.entries or not workspace.database.is_file():
        return False
    return time.time() - workspace.database.stat().st_mtime > MISSING_AFTER_SECONDS


def tested_besides(
    record: RecordOfTests,
    present: Sequence[MetricRecord],
    tested_now: Iterable[MetricRecord] = (),
) -> list[MetricRecord]:
    """Metrics and ideas of a record that are not among those present.

    An idea tested under two names counts once. Nothing is recorded; `tested_now` count as if they
    were.
    """
    here = {_identity(entry) for entry in present}
    named: dict[tuple[str, str, str], list[MetricRecord]] = {}
    for entry in present:
        named.setdefault((entry.kind, entry.metric, entry.variant), []).append(entry)
    besides: dict[tuple[str, ...], MetricRecord] = {}
    for entry in _with(record.entries, tested_now):
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


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _path(workspace: Workspace, problem: str) -> Path:
    return workspace.data / "tested" / f"problem={problem}.json"


def _earlier_path(workspace: Workspace, problem: str) -> Path:
    """The place of the record until version 0.1."""
    return workspace.data / "tries" / f"problem={problem}.json"


def _recorded(workspace: Workspace, problem: str) -> RecordOfTests:
    path, earlier = _path(workspace, problem), _earlier_path(workspace, problem)
    return _read(path if path.is_file() or not earlier.is_file() else earlier)


def _written(record: RecordOfTests) -> dict[str, Any]:
    previous = ""
    entries: list[dict[str, Any]] = []
    for entry in record.entries:
        content = asdict(entry)
        previous = _digest(content, previous)
        entries.append(content | {"sha256": previous})
    models = {full_id: asdict(model) for full_id, model in record.models.items()}
    return {"targets": list(record.targets), "models": models, "entries": entries}


def _digest(content: Mapping[str, Any], previous: str) -> str:
    text = json.dumps(content, sort_keys=True) + previous
    return hashlib.sha256(text.encode()).hexdigest()


def _read(path: Path) -> RecordOfTests:
    try:
        content: Any = json.loads(path.read_bytes())
        if isinstance(content, list):  # until version 0.1
            return RecordOfTests(tuple(_entry(row) for row in content))
        previous = ""
        entries: list[MetricRecord] = []
        for number, row in enumerate(content["entries"], start=1):
            sha256 = row.pop("sha256")
            previous = _digest(row, previous)
            if sha256 != previous:
                raise ValueError(f"entry {number} was changed, or one before it removed")
            entries.append(_entry(row))
        models = {name: GroupedModel(**model) for name, model in content["models"].items()}
        return RecordOfTests(tuple(entries), models, tuple(content["targets"]))
    except FileNotFoundError:
        return RecordOfTests()
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StorageError(
            f"{path}: can't be read ({error}); restore it from a backup: without it, metrics "
            "tested before are no longer counted. To start a new record, move it away"
        ) from error


def _entry(row: dict[str, Any]) -> MetricRecord:
    """The entry of a row of the file, under the name that its variant has now."""
    entry = MetricRecord(**row)
    if (entry.kind, entry.metric) == ("variant", "entropy"):  # until version 0.1
        return replace(entry, variant=entry.variant.replace("first_choice_nll", "top_1_nll"))
    return entry


def _with(
    entries: Iterable[MetricRecord], rows: Iterable[MetricRecord], moment: str = ""
) -> list[MetricRecord]:
    """The entries with these rows added to them, or updated in them."""
    known = list(entries)
    now = moment or _now()
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
