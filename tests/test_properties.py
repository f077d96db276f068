"""What holds for every input: stored rows, SQL macros, intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from warehouse_samples import KEYS, make_rows, make_unit

from analysis.statistics.correlations import spearman_rows
from analysis.statistics.resampling import bootstrap
from warehouse.maintenance.check import check_store
from warehouse.paths import workspace_of
from warehouse.sql.connection import connect_to_parquet
from warehouse.store import parquet_files
from warehouse.store.ledger import content_sha256, read_units
from warehouse.store.token_files import as_stored, publish, published_path, read_rows, write_unit

quick = settings(max_examples=25, deadline=None, derandomize=True)
few = settings(max_examples=8, deadline=None, derandomize=True)

units = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 80), st.integers(0, 9), st.booleans()),
    min_size=1,
    max_size=12,
)
"""Document, rows, seed of their numbers, and whether all that is pending is published then."""


@few
@given(written=units)
def test_what_was_stored_last_is_read(written, tmp_path_factory):
    """Units in any order, some of them again, published at any time, in row groups of 30."""
    workspace = workspace_of(tmp_path_factory.mktemp("store"))
    last: dict[int, pa.Table] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_files, "ROW_GROUP_ROWS", 30)
        for doc_id, count, seed, published in written:
            last[doc_id] = make_rows(doc_id, count, seed)
            write_unit(workspace, make_unit(doc_id, last[doc_id]), last[doc_id])
            if published:
                publish(workspace, *KEYS)
        publish(workspace, *KEYS)
    path = published_path(workspace, *KEYS)
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert set(groups[:-1]) <= {30} and 0 < groups[-1] <= 30
    expected = pa.concat_tables([as_stored(last[doc_id]) for doc_id in sorted(last)])
    assert read_rows(path).equals(expected)
    assert {unit.doc_id: unit.content_sha256 for unit in read_units(path)} == {
        doc_id: content_sha256(as_stored(rows)) for doc_id, rows in last.items()
    }
    assert check_store(workspace, KEYS[0]).defects == ()


@pytest.fixture(scope="module")
def macros(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    with connect_to_parquet(workspace_of(Path(tmp_path_factory.mktemp("macros")))) as connection:
        yield connection


def answer(macros: duckdb.DuckDBPyConnection, formula: str, *columns: Any) -> Any:
    """The value of an aggregate over rows of columns a and b."""
    rows = pa.table(
        {name: pa.array(c, pa.float64()) for name, c in zip("ab", columns, strict=False)}
    )
    macros.register("drawn", rows)
    ((value,),) = macros.execute(f"select {formula} from drawn").fetchall()
    return value


@quick
@given(
    rows=st.lists(
        st.tuples(st.floats(-40, 0), st.floats(-40, 0), st.integers(1, 9)), min_size=1, max_size=50
    )
)
def test_macros_of_log_probabilities_are_those_of_numpy(rows, macros):
    long, short, sizes = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    near = {"rel": 1e-12, "abs": 1e-12}
    assert answer(macros, "ppl(a)", long) == pytest.approx(math.exp(-long.mean()), **near)
    bits = -long.sum() / math.log(2) / sizes.sum()
    assert answer(macros, "bits_per_byte(a, b)", long, sizes) == pytest.approx(bits, **near)
    assert answer(macros, "avg(gain(a, b))", long, short) == pytest.approx(
        (long - short).mean(), **near
    )


number = st.one_of(
    st.integers(-3, 3).map(float), st.floats(-1e3, 1e3), st.none(), st.just(math.nan)
)


@quick
@given(rows=st.lists(st.tuples(number, number), max_size=25))
def test_rank_correlations_are_those_of_scipy(rows, macros):
    """Ties, nulls and NaN included; none for fewer than three rows or a constant column."""
    x, y = ([row[i] for row in rows] for i in (0, 1))
    whole = np.array([row for row in rows if None not in row], dtype=float).reshape(-1, 2)
    a, b = whole[np.isfinite(whole).all(axis=1)].T
    defined = len(a) >= 3 and np.ptp(a) > 0 and np.ptp(b) > 0
    for macro, ours in (("spearman", scipy.stats.spearmanr), ("kendall", scipy.stats.kendalltau)):
        expected = pytest.approx(ours(a, b).statistic, abs=1e-9) if defined else None
        assert answer(macros, f"{macro}(a, b)", x, y) == expected


def test_intervals_cover_as_often_as_they_say():
    """95% intervals of Spearman's rho, 30 models, true value 6 / pi asin(r / 2)."""
    draw, r, sets = np.random.default_rng(0), 0.5, 120
    truth = 6 / math.pi * math.asin(r / 2)
    covered = {"percentile": 0, "bca": 0}
    for _ in range(sets):
        x, noise = draw.normal(size=(2, 30))
        y = r * x + math.sqrt(1 - r * r) * noise
        value = float(spearman_rows(x[None], y[None])[0])
        found = bootstrap(value, spearman_rows, x, y, seed=0, resamples=300)
        for name in covered:
            interval = getattr(found, name)
            covered[name] += interval.low <= truth <= interval.high
    for name, count in covered.items():
        assert 0.89 <= count / sets <= 0.99, (name, count)
