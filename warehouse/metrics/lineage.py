"""dbt's lineage graph: what a metric is computed from, and whether a label is among it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warehouse.errors import TokenmartError
from warehouse.metrics.manifest import read_manifest

_LABELS = "downstream"
_GIVEN = "given_by_dbt"
"""Placeholder for a Jinja expression: a `ref`, a `source`, a macro's text."""

_OPENS = re.compile(
    r"""\b(read_\w+|\w+_scan|\w+_scan_\w+|scan_\w+|sniff_csv|glob|query|query_table|getenv|st_read
    |parquet_\w*metadata|parquet_schema|attach|duckdb_\w+|pragma_\w+)\s*\(""",
    re.IGNORECASE | re.VERBOSE,
)
_CTE = re.compile(r"""(\w+)"?\s*(?:\([\w\s,]*\)\s*)?as\s+(?:not\s+)?(?:materialized\s*)?\(""", re.I)
_FROM = re.compile(
    r"""(?<!distinct\s)\b(?:from|join)\s+(?:lateral\s+)?
    ((?:"[^"]+"|\w+)(?:\.(?:"[^"]+"|\w+))*|'[^']*')(?![\w."]|\s*\()""",
    re.IGNORECASE | re.VERBOSE,
)
_FILE = re.compile(
    r"'[^']*(?:://|\.(?:parquet|csv|tsv|jsonl?|ndjson|duckdb|db|sqlite|xlsx|txt|arrow|gz|zst))[^']*'",
    re.IGNORECASE,
)
_NAMES_LABELS = re.compile(rf"[\w.]*{_LABELS}\w*", re.IGNORECASE)


@dataclass(frozen=True)
class Lineage:
    """Everything above one metric in the graph.

    node: dbt's unique id of the metric's model.
    ancestors: unique ids, sorted.
    labels: those that hold downstream scores, `<id>: its SQL names <table>` for models that name
        such a table in their text, and `<id>: its SQL reads <what>` for those that read anything
        else past the graph (a file, another schema, a table without `ref`); must be empty.
    needs: the kind of probe that the family is computed from (`full`, `window`, …).
    """

    node: str
    ancestors: tuple[str, ...]
    labels: tuple[str, ...]
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
        labels=(
            *sorted(name for name in above if _LABELS in name.split(".")[-1]),
            *_named_labels(manifest, sorted(above | {found[0]})),
            *_read_past_the_graph(manifest, sorted(above | {found[0]})),
        ),
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


def _named_labels(manifest: Mapping[str, Any], names: list[str]) -> Iterator[str]:
    """Models whose SQL, or a macro of their package that it calls, names a table of labels.

    A table named without `ref` is not on the graph. Comments are searched as well.
    """
    for name, texts in _texts(manifest, names):
        found = next(filter(None, map(_NAMES_LABELS.search, texts)), None)
        if found:
            yield f"{name}: its SQL names {found.group()}"


def _read_past_the_graph(manifest: Mapping[str, Any], names: list[str]) -> Iterator[str]:
    """Models whose SQL, or a macro that it calls, reads what no `ref` or `source` gave it."""
    for name, texts in _texts(manifest, names):
        plain = [_without_jinja(text) for text in texts]
        own = {cte.lower() for text in plain for cte in _CTE.findall(text)}
        for text in plain:
            opens = _OPENS.search(text)
            if opens:
                yield f"{name}: its SQL reads {opens.group(1).lower()}()"
                break
            foreign = _FILE.findall(text)
            read = [word.replace('"', "").lower() for word in _FROM.findall(_strings_gone(text))]
            foreign += [w for w in read if w not in own and w != _GIVEN]
            if foreign:
                yield f"{name}: its SQL reads {foreign[0]}"
                break


def _texts(manifest: Mapping[str, Any], names: list[str]) -> Iterator[tuple[str, list[str]]]:
    """The SQL of each model and of the macros of its package that it calls."""
    nodes: Mapping[str, Any] = manifest.get("nodes", {})
    macros: Mapping[str, Any] = manifest.get("macros", {})
    calls = {
        name: list(content.get("depends_on", {}).get("macros", []))
        for name, content in (*nodes.items(), *macros.items())
    }
    for name in names:
        package = name.split(".")[1]
        own_macros = [m for m in sorted(ancestors(calls, name)) if m.split(".")[1] == package]
        texts = [nodes.get(name, {}).get("raw_code", "")]
        yield name, texts + [macros.get(macro, {}).get("macro_sql", "") for macro in own_macros]


def _strings_gone(text: str) -> str:
    """SQL with its strings emptied, except one in the place of a table."""
    return re.sub(
        r"(\b(?:from|join)\s+'[^']*')|'(?:[^']|'')*'", lambda m: m[1] or "''", text, flags=re.I
    )


def _without_jinja(text: str) -> str:
    """SQL with comments and Jinja blocks gone, and a placeholder for each Jinja expression."""
    for pattern, put in (
        (r"\{#.*?#\}", " "),
        (r"--[^\n]*|/\*.*?\*/", " "),
        (r"\{%.*?%\}", " "),
        (r"\{\{.*?\}\}", f" {_GIVEN} "),
    ):
        text = re.sub(pattern, put, text, flags=re.DOTALL)
    return text
