"""`--shards`, `--on` and `--address` among the words of a dbt command line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from warehouse.errors import TokenmartError


@dataclass(frozen=True)
class Sharding:
    """How a build is divided.

    shards: how many.
    on: None for this machine, or `ray`.
    address: of a running Ray cluster; None for one that lives as long as the command.
    """

    shards: int
    on: str | None = None
    address: str | None = None


def take_sharding(arguments: Sequence[str]) -> tuple[list[str], Sharding | None]:
    """Split these options from the words that are dbt's.

    Returns:
        The other words, and what was asked for; None where nothing is divided.

    Raises:
        TokenmartError: an option without its value, or a wrong one.
    """
    rest, given = [], {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in ("--shards", "--on", "--address"):
            rest.append(word)
            continue
        found = value if equals else next(words, "")
        if not found or found.startswith("-"):
            raise TokenmartError(f"{name}: give it a value, as in `{name} {_EXAMPLES[name]}`")
        given[name] = found
    if not given:
        return rest, None
    on = given.get("--on")
    if on not in (None, "ray"):
        raise TokenmartError(f"--on {on}: unknown; use --on ray, or leave it out for this machine")
    if "--address" in given and on is None:
        raise TokenmartError("--address: goes with --on ray")
    shards = given.get("--shards", str(os.cpu_count() or 1))
    if not shards.isdigit() or int(shards) < 1:
        raise TokenmartError(f"--shards {shards}: give a number of at least 1")
    return rest, Sharding(int(shards), on, given.get("--address"))


_EXAMPLES = {"--shards": "4", "--on": "ray", "--address": "head:6379"}
