"""Build the warehouse in shards, here or on a Ray cluster."""

from __future__ import annotations

import sys

import click

from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace


@click.command()
@click.argument("verb", metavar="run|build", type=click.Choice(["run", "build"]))
@click.option(
    "--count",
    type=click.IntRange(1),
    required=True,
    help="Number of shards to divide the models into.",
)
@click.option("--vars", "variables", default="{}", help="dbt's variables, such as 'grids: true'.")
@click.option("--on", type=click.Choice(["ray"]), help="Run the shards on a Ray cluster.")
@click.option(
    "--address",
    help="Address of the Ray cluster, HOST:PORT; default: a new cluster on this machine.",
)
def shards(verb: str, count: int, variables: str, on: str | None, address: str | None) -> None:
    """Build the warehouse in shards, for a store that is too large for one build.

    A shard is the dbt project for some of the models, with its own database and memory limit
    (TOKENMART_MEMORY). `build` also runs the data tests. Shards run one after another on this
    machine, or with --on ray on a Ray cluster.

    \b
    tokenmart shards build --count 4
    tokenmart shards build --count 32 --on ray --address head:6379
    """
    from plugins.cluster.shards import build_sharded, run_here
    from plugins.cluster.shards_on_ray import on_ray

    if address and not on:
        raise TokenmartError("--address goes with --on ray")
    runner = on_ray(address) if on else run_here
    sys.exit(build_sharded(verb, _mapping(variables), find_workspace(), count, runner))


def _mapping(text: str) -> dict[str, object]:
    import yaml

    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        found = None
    if not isinstance(found, dict):
        raise TokenmartError(f"--vars {text}: write a mapping, such as 'grids: true'")
    return found
