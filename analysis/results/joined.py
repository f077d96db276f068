"""What one machine read, joined to what is frozen of another: one set of tables.

Values per document are sums over a document's tokens, so it doesn't matter where each was read, as
long as models, documents and definitions are the same. Where a document was read twice, both
readings are compared.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from warehouse.errors import TokenmartError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pyarrow as pa

TARGET_TABLES = ("downstream_scores", "downstream_depths", "item_groups")
"""What was measured of the target; it stays as it was frozen."""

TOLERANCE = 0.1
"""So far may two readings of a document differ, in standard deviations between the models: more
would move models past each other that the metric tells apart."""

_SAME_MODEL = ("base_id", "revision", "interventions", "tokenizer_sha256")
_SAME_DEFINITION = ("written", "code", "direction", "transform")
_RUN = ["model_id", "condition", "status", "first_finished"]
_ROW = ["metric", "variant", "model_id", "doc_id"]


@dataclass(frozen=True)
class Overlap:
    """Values of documents that were read twice.

    Attributes:
        models, documents: of which there are two readings.
        values: that were compared: of each variant, model and document.
        largest: difference of a document's value, in standard deviations between models.
        variant: where that is.
    """

    models: int
    documents: int
    values: int
    largest: float
    variant: str


@dataclass(frozen=True)
class Joined:
    """Tables of both readings.

    Attributes:
        tables: by name, without `metric_values`, which follow from `metric_documents`.
        overlap: None where no document was read twice.
        left_out: variants that only one of the two has, or that are defined otherwise in each.
    """

    tables: dict[str, pa.Table]
    overlap: Overlap | None
    left_out: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """For the manifest."""
        overlap = None if self.overlap is None else asdict(self.overlap)
        return {"overlap": overlap, "left_out": list(self.left_out)}


def join(
    before: Mapping[str, pa.Table],
    now: Mapping[str, pa.Table],
    folder: Path,
    known: Collection[int] = (),
) -> Joined:
    """Add what was read now to what was frozen before; of a document in both, now counts.

    Args:
        before: frozen tables by name.
        now: those of a build.
        folder: of the frozen ones, for messages.
        known: documents that were frozen from this very run: the same reading, not a second one.

    Raises:
        TokenmartError: models or documents are not the same, or two readings of a document differ.
    """
    import pyarrow as pa

    _refuse_others(before["models"], now["models"], "full_id", _SAME_MODEL, folder, "models")
    _refuse_others(
        before["documents"], now["documents"], "doc_id", ("sha256",), folder, "documents"
    )
    then, today = (_definitions(tables["metric_catalog"]) for tables in (before, now))
    same = {name for name in then.keys() & today.keys() if then[name] == today[name]}
    if not same:
        raise TokenmartError(
            f"{folder}: no metric is defined there as it is now; freeze without --add"
        )
    old, new = (_of(tables["metric_documents"], same) for tables in (before, now))
    overlap = _overlap(old.filter([doc not in known for doc in old["doc_id"].to_pylist()]), new)
    kept = old.join(new.select(_ROW), _ROW, join_type="left anti").select(new.column_names)
    # a run that went on since it was frozen has its first time still
    earlier = before["costs"].join(now["costs"].select(_RUN), _RUN, join_type="left anti")
    tables = {
        **now,
        "metric_documents": _sorted(pa.concat_tables([kept, new])),
        "metric_catalog": _of(now["metric_catalog"], same),
        "costs": _sorted(pa.concat_tables([earlier, now["costs"]], promote_options="permissive")),
        **{name: before[name] for name in TARGET_TABLES},
    }
    left_out = sorted("/".join(name) for name in (then.keys() | today.keys()) - same)
    return Joined(tables, overlap, tuple(left_out))


def _refuse_others(
    before: pa.Table, now: pa.Table, key: str, fields: tuple[str, ...], folder: Path, what: str
) -> None:
    """Refuse to join what belongs to other models, or to other documents."""
    then, today = (
        {row[key]: [row[name] for name in fields] for row in table.to_pylist()}
        for table in (before, now)
    )
    differ = sorted(
        name for name in then.keys() | today.keys() if then.get(name) != today.get(name)
    )
    if differ:
        shown = ", ".join(map(str, differ[:3])) + (", …" if len(differ) > 3 else "")
        raise TokenmartError(
            f"{folder}: can't be added to, {len(differ)} {what} are not those that it was frozen "
            f"with ({shown}); take these back, or freeze without --add"
        )


def _definitions(catalog: pa.Table) -> dict[tuple[str, str], list[Any]]:
    return {
        (row["metric"], row["variant"]): [row[name] for name in _SAME_DEFINITION]
        for row in catalog.to_pylist()
    }


def _of(table: pa.Table, variants: set[tuple[str, str]]) -> pa.Table:
    names = zip(table["metric"].to_pylist(), table["variant"].to_pylist(), strict=True)
    return table.filter([name in variants for name in names])


def _overlap(old: pa.Table, new: pa.Table) -> Overlap | None:
    """Compare what was read twice.

    Raises:
        TokenmartError: two readings differ by more than `TOLERANCE`.
    """
    both = old.join(new, _ROW, join_type="inner", left_suffix="_then", right_suffix="_now")
    if not both.num_rows:
        return None
    then, now = (
        _numbers(both, f"numerator_{when}") / _numbers(both, f"denominator_{when}")
        for when in ("then", "now")
    )
    spread = _spreads(old)
    names = list(zip(both["metric"].to_pylist(), both["variant"].to_pylist(), strict=True))
    # where models are all alike, their spread is no measure: values count as equal to six digits
    scale = np.maximum([spread[name] for name in names], 1e-6 * np.abs(then))
    apart = np.divide(np.abs(then - now), scale, out=np.zeros(len(names)), where=then != now)
    worst = int(apart.argmax())
    found = Overlap(
        models=len(set(both["model_id"].to_pylist())),
        documents=len(set(both["doc_id"].to_pylist())),
        values=both.num_rows,
        largest=float(f"{apart[worst]:.6g}"),
        variant="/".join(names[worst]),
    )
    if found.largest > TOLERANCE:
        row = both.slice(worst, 1).to_pylist()[0]
        raise TokenmartError(
            f"document {row['doc_id']} was read twice by {row['model_id']}, and "
            f"{found.variant} is {now[worst]:.6g} now and was {then[worst]:.6g}: "
            f"{found.largest:.2g} standard deviations between models, of which {TOLERANCE} are "
            "allowed; the two machines don't compute the same, so read all documents on one"
        )
    return found


def _spreads(documents: pa.Table) -> dict[tuple[str, str], float]:
    """Of each variant, the standard deviation over models of their mean over documents."""
    ratio = _numbers(documents, "numerator") / _numbers(documents, "denominator")
    columns = (documents[name].to_pylist() for name in ("metric", "variant", "model_id"))
    names = zip(*columns, strict=True)
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for (metric, variant, model), value in zip(names, ratio.tolist(), strict=True):
        values.setdefault((metric, variant), {}).setdefault(model, []).append(value)
    return {
        name: float(np.std([np.mean(each) for each in models.values()]))
        for name, models in values.items()
    }


def _sorted(table: pa.Table) -> pa.Table:
    """By all columns, so that the same rows are the same file."""
    return table.sort_by([(name, "ascending") for name in table.column_names])


def _numbers(table: pa.Table, column: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.asarray(table[column].to_numpy(), dtype=np.float64)
