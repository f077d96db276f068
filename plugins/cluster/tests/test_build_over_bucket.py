"""dbt over a store in a bucket: the values of a disk, whole, in shards and on Ray."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("s3fs", reason="the extra `s3` isn't installed")
pytest.importorskip("moto", reason="the extra `dev` isn't installed")

from bucket_server import BUCKET, make_bucket, point_at, running, upload
from dbt_harness import NO_UNIT_TESTS, NewWarehouse, Warehouse, assert_same_values
from made_up_warehouse import Retrieval, Shape, Window

from plugins.cluster.shards import build_sharded, run_here
from plugins.cluster.shards_on_ray import on_ray
from warehouse.errors import TokenmartError
from warehouse.remote import remote_path
from warehouse.sql.session import Session

SMALL = Shape(
    models=3,
    documents=2,
    tokens=400,
    windows=(Window(64, 32),),
    retrieval=Retrieval(excerpts=4, excerpt_tokens=16, answer_tokens=8, min_gap=32),
)


@pytest.fixture(scope="module")
def here(new_warehouse: NewWarehouse) -> Warehouse:
    return new_warehouse(SMALL)


@pytest.fixture(scope="module")
def in_bucket(here: Warehouse) -> Iterator[str]:
    """The address of the same files."""
    with pytest.MonkeyPatch.context() as patch, running() as server:
        point_at(patch, server.address)
        make_bucket()
        address = f"s3://{BUCKET}/values"
        upload(here.data, address)
        patch.setenv("TOKENMART_STORE", address)
        yield address


def far(here: Warehouse, folder: Path) -> Warehouse:
    """A checkout without a token file; its store is the bucket."""
    (folder / "data").mkdir(parents=True)
    return Warehouse(folder / "data", folder / "warehouse" / "tokenmart.duckdb", here.project)


def test_sql_reads_a_bucket_in_place_and_opens_nothing_else(
    here: Warehouse, in_bucket: str, tmp_path: Path
) -> None:
    query = "select model_id, condition, count(*), sum(rank) from tokens group by all order by all"
    with far(here, tmp_path).as_workspace() as workspace, Session(workspace) as session:
        with session.ask(query) as rows:
            found = rows.fetchall()
        with session.ask("select count(*), sum(rows) from units") as rows:
            units = rows.fetchall()
        (remote_path(f"s3://{BUCKET}/secret.parquet")).put(b"x")  # type: ignore[attr-defined]
        for other in (f"s3://{BUCKET}/secret.parquet", f"{here.data}/tokens/*/*/*/*.parquet"):
            asking = session.ask(f"from read_parquet('{other}')")
            with pytest.raises(TokenmartError, match=r"(?i)permission|access"), asking as rows:
                rows.fetchall()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TOKENMART_STORE")
        with here.as_workspace() as workspace, Session(workspace) as session:
            with session.ask(query) as rows:
                assert rows.fetchall() == found and found
            with session.ask("select count(*), sum(rows) from units") as rows:
                assert rows.fetchall() == units


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_values_over_a_bucket_are_those_of_a_disk(
    here: Warehouse, in_bucket: str, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TOKENMART_STORE")
        here.build()
    whole = far(here, tmp_path / "whole")
    whole.database.parent.mkdir(parents=True)
    done = whole.dbt("build", "--quiet", *NO_UNIT_TESTS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_same_values(here, whole)
    sharded = far(here, tmp_path / "sharded")
    with sharded.as_workspace() as workspace:
        assert build_sharded("build", {}, workspace, 2, run_here) == 0
    assert_same_values(here, sharded)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_values_of_a_build_on_ray_over_a_bucket_are_those_of_a_disk(
    here: Warehouse, in_bucket: str, tmp_path: Path
) -> None:
    pytest.importorskip("ray", reason="the extra `ray` isn't installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TOKENMART_STORE")
        if not here.database.exists():
            here.build()
    on = far(here, tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENMART_MEMORY", "1GiB")
        with on.as_workspace() as workspace:
            assert build_sharded("build", {}, workspace, 2, on_ray(None)) == 0
    assert_same_values(here, on)
