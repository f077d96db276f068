"""dbt's lineage graph: what a metric is computed from.

Target scores need no search here: dbt's connection can't open their files (see
`warehouse.sql.connection.lock`), and it has no model in Python (`generate_schema_name`). What is
checked is a table brought as a seed or snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warehouse.errors import TokenmartError
from warehouse.metrics.manifest import read_manifest


@dataclass(frozen=True)
class Lineage:
    """Everything above one metric in the graph.

    node: dbt's unique id of the metric's model.
    ancestors: unique ids, sorted.
    foreign: ids among them that aren't SQL over the store: seeds and snapshots. They can have
        numbers from anywhere, so this must be empty.
    needs: the kind of probe that the family is computed from (`full`, `window`, …).
    """

    node: str
    ancestors: tuple[str, ...]
    foreign: tuple[str, ...]
    needs: str


def read_lineage(path: Path, metric: str) -> Lineage:
    """Read the lineage of a metric from dbt's manifest.

    Raises:
        TokenmartError: no manifest, or no model for this metric in it.
    """
    remedy = "run `tokenmart dbt build`"
    manifest = read_manifest(path)
    nodes: Mapping[str, Any] = manifest.get("nodes", {})
    found = [
        name
        for name, node in nodes.items()
        if node.get("resource_type") == "model"
        and node.get("config", {}).get("meta", {}).get("metric") == metric
    ]
    if len(found) != 1:
        raise TokenmartError(
            f"{path}: {len(found)} models have meta.metric = {metric}, 1 is needed; {remedy}"
        )
    above = ancestors(manifest.get("parent_map", {}), found[0])
    meta = nodes[found[0]]["config"]["meta"]
    return Lineage(
        node=found[0],
        ancestors=tuple(sorted(above)),
        foreign=tuple(sorted(name for name in above if not name.startswith(("model.", "source.")))),
        needs=str(meta.get("needs", "full")),
    )


def ancestors(parent_map: Mapping[str, list[str]], node: str) -> set[str]:
    """All nodes and sources above `node`."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        fresh = set(parent_map.get(waiting.pop(), ())) - found
        found |= fresh
        waiting.extend(fresh)
    return found
