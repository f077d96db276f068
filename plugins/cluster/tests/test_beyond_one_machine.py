"""A part of minilong on one machine, on Ray nodes of which one dies, and as a job array; the
warehouse built here, in shards and on Ray over a bucket: the same rows and values."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("s3fs", reason="the extra `s3` isn't installed")
pytest.importorskip("moto", reason="the extra `dev` isn't installed")
pytest.importorskip("submitit", reason="the extra `slurm` isn't installed")
pytest.importorskip("ray", reason="the extra `ray` isn't installed")

from bucket_server import BUCKET, make_bucket, point_at, running
from dbt_harness import Warehouse, assert_same_values
from published_tables import assert_same, published
from real_subset import MODELS, OPTIONS, write_subset

from extract.cli import extract
from plugins.cluster.shards import build_sharded, run_here
from plugins.cluster.shards_on_ray import on_ray
from warehouse.paths import Workspace, find_workspace
from warehouse.store.ledger import read_units

pytestmark = [pytest.mark.models, pytest.mark.slow, pytest.mark.timeout(900)]

DOCUMENTS = (11, 16, 23)
UNITS = len(MODELS) * len(DOCUMENTS) * 4
"""Each document whole, in windows, and two conditions of retrieval."""


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The problem file; a bucket server runs, and `s3://lab/…` is a place for a store."""
    path = write_subset(tmp_path_factory.mktemp("minilong"), DOCUMENTS)
    with pytest.MonkeyPatch.context() as patch, running() as server:
        point_at(patch, server.address)
        make_bucket()
        patch.setenv("TOKENMART_DATA", str(path.parent / "data"))
        patch.setenv("TOKENMART_SUBMITIT", "local")
        patch.setenv("TOKENMART_MEMORY", "1GiB")
        yield path


def run(problem: Path, *options: str) -> Result:
    return CliRunner().invoke(extract, ["--problem", str(problem), *OPTIONS, *options])


@pytest.fixture(scope="module")
def here(problem: Path) -> Workspace:
    """What one process wrote to the disk."""
    done = run(problem)
    assert done.exit_code == 0, done.output
    return find_workspace()


def store(name: str) -> Workspace:
    """The workspace with this store in the bucket."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENMART_STORE", f"s3://{BUCKET}/{name}")
        return find_workspace()


def assert_same_tables(found: Workspace, expected: Workspace) -> None:
    ours, wanted = published(found, "minilong"), published(expected, "minilong")
    assert ours.keys() == wanted.keys()
    for name, table in ours.items():
        assert_same(table, wanted[name], nats=1e-4)
    units = [u for path in found.tokens.glob("**/tokens.parquet") for u in read_units(path)]
    assert len({(u.model_id, u.condition, u.doc_id) for u in units}) == len(units) == UNITS
    assert {unit.status for unit in units} == {"done"}


@pytest.fixture(scope="module")
def from_ray(problem: Path, here: Workspace) -> Workspace:
    """What three Ray nodes wrote to the bucket, one of which died while it worked."""
    from ray.cluster_utils import Cluster

    lab, results = store("ray"), list[Result]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENMART_STORE", f"s3://{BUCKET}/ray")
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        try:
            cluster.add_node(num_cpus=1)
            victim = cluster.add_node(num_cpus=1)
            options = ("--on", "ray", "--address", cluster.address)
            working = threading.Thread(target=lambda: results.append(run(problem, *options)))
            working.start()
            # every node has claimed a unit and one is written: all of them compute
            while len(list((lab.store / "claims").glob("**/*"))) < 3 or not finished(lab):
                assert working.is_alive(), results and results[0].output
                time.sleep(0.2)
            cluster.remove_node(victim, allow_graceful=False)
            working.join()
        finally:
            cluster.shutdown()
    assert results[0].exit_code == 0, results[0].output
    assert results[0].output.count("was lost") == 1, results[0].output
    return lab


def finished(lab: Workspace) -> list[Path]:
    return list(lab.pending.glob("**/*.parquet"))


def test_three_ray_nodes_of_which_one_dies_write_the_same_rows(
    from_ray: Workspace, here: Workspace
) -> None:
    assert_same_tables(from_ray, here)


def test_a_job_array_writes_the_same_rows(problem: Path, here: Workspace) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENMART_STORE", f"s3://{BUCKET}/slurm")
        done = run(problem, "--on", "slurm", "--workers", "2", "--slurm", "timeout_min=20")
    assert done.exit_code == 0, done.output
    assert_same_tables(store("slurm"), here)


def test_values_of_a_build_here_in_shards_and_on_ray_over_the_bucket_are_the_same(
    from_ray: Workspace, tmp_path: Path
) -> None:
    whole = Warehouse(tmp_path / "whole" / "data", tmp_path / "whole" / "tokenmart.duckdb")
    for path in from_ray.store.glob("**/*.parquet"):
        copied = whole.data / str(path).split("/ray/", 1)[1]
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(path.read_bytes())
    whole.build()
    found = whole.rows("select count(*) from metric_values where value is not null")
    assert found[0][0] > len(MODELS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENMART_STORE", f"s3://{BUCKET}/ray")
        for name, runner in (("shards", run_here), ("on_ray", on_ray(None))):
            folder = tmp_path / name
            (folder / "data").mkdir(parents=True)
            other = Warehouse(folder / "data", folder / "tokenmart.duckdb", whole.project)
            with other.as_workspace() as workspace:
                assert build_sharded("build", {}, workspace, 2, runner) == 0
            assert_same_values(whole, other)
            shutil.rmtree(folder)
