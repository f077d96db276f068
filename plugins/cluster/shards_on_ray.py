"""Build shards on a Ray cluster: one task per shard, placed on a node with enough memory.

Every node needs the workspace's folders under the same path, and an installation of Tokenmart.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import click

from plugins.cluster.ray_cluster import NODE_LOSSES, PUBLIC_SETTINGS, cluster
from plugins.cluster.shards import Runner, Shard, build_shard
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace

PASSED_ON = ("TOKENMART", *PUBLIC_SETTINGS)
"""Prefixes of environment variables that are passed to shards on other machines."""

_BESIDE_DUCKDB = 1 << 30
"""Bytes that a shard's process needs beyond DuckDB's limit: dbt itself, and memory that DuckDB
doesn't count."""


def on_ray(address: str | None) -> Runner:
    """A runner that builds shards on a cluster.

    Args:
        address: address of a running cluster; None starts a temporary one on this machine.
    """

    def run(shards: Sequence[Shard], workspace: Workspace) -> Iterator[tuple[Shard, str]]:
        with cluster(address) as ray:
            memory = duckdb_limit() + _BESIDE_DUCKDB
            largest = max(
                (node["Resources"].get("memory", 0) for node in ray.nodes() if node["Alive"]),
                default=0,
            )
            if largest < memory:
                raise TokenmartError(
                    f"--on ray: a shard needs {memory / 2**30:.1f} GiB and the largest node offers "
                    f"{largest / 2**30:.1f}; set TOKENMART_MEMORY to less, or take larger nodes"
                )
            settings = {k: v for k, v in os.environ.items() if k.startswith(PASSED_ON)}
            task = ray.remote(memory=memory, max_retries=NODE_LOSSES, scheduling_strategy="SPREAD")(
                _build_with
            )
            running = {task.remote(shard, workspace, settings): shard for shard in shards}
            while running:
                (done,), _ = ray.wait(list(running), num_returns=1)
                shard = running.pop(done)
                try:
                    yield shard, ray.get(done)
                except ray.exceptions.RayError as error:
                    text = " ".join(str(error).split())
                    click.echo(f"shard {shard.number}: {text[:200]}", err=True)
                    yield shard, f"Ray lost it ({type(error).__name__})"

    return run


def duckdb_limit() -> int:
    """DuckDB's memory limit of a build in bytes: $TOKENMART_MEMORY, as in profiles.yml.

    Raises:
        TokenmartError: the value is not a size.
    """
    import duckdb

    text = os.environ.get("TOKENMART_MEMORY", "5GiB")
    try:
        with duckdb.connect(":memory:") as connection:
            connection.execute("set memory_limit = ?", [text])
            found = connection.execute("select current_setting('memory_limit')").fetchall()
    except duckdb.Error as error:
        raise TokenmartError(f"TOKENMART_MEMORY={text}: not a size such as 5GiB") from error
    number, unit = str(found[0][0]).split()
    return int(float(number) * 1024 ** ["bytes", "KiB", "MiB", "GiB", "TiB"].index(unit))


def _build_with(shard: Shard, workspace: Workspace, settings: dict[str, str]) -> str:
    os.environ.update(settings)
    return build_shard(shard, workspace)
