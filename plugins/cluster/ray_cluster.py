"""Connection to a Ray cluster; needs the extra `ray`."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from warehouse.errors import TokenmartError


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """The module `ray`, connected; disconnected when the block ends.

    Args:
        address: address of a running cluster that includes this machine, such as `head:6379` or
            `auto`; None starts a cluster on this machine.

    Raises:
        TokenmartError: Ray isn't installed or doesn't answer, or the address is invalid.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if address and "://" in address:
        raise TokenmartError(
            f"--address {address}: give HOST:PORT of the cluster's head, such as head:6379, and "
            "run the command on a machine of the cluster"
        )
    try:
        import ray
    except ImportError as error:
        raise TokenmartError(
            "extract-on-ray: Ray isn't installed; pip install -c requirements.lock -e '.[ray]'"
        ) from error
    if ray.is_initialized():
        yield ray
        return
    try:
        context = ray.init(
            address=address or "local", log_to_driver=False, logging_level=logging.ERROR
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = f"--address {address}" if address else "extract-on-ray"
        text = " ".join(str(error).split())
        raise TokenmartError(
            f"{where}: no Ray cluster ({text[:200]}); start one with `ray start --head`, or leave "
            "out --address for one on this machine"
        ) from error
    try:
        if url := getattr(context, "dashboard_url", None):
            click.echo(f"Ray's dashboard: http://{url}", err=True)
        yield ray
    finally:
        ray.shutdown()
