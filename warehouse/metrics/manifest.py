"""dbt, and its manifest: the catalogue of metrics with YAML, variants and lineage of each."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import ValidationError
from pydantic.dataclasses import dataclass as validated

from warehouse.child_process import NOT_FROM_HERE, inherited
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.store.stored_files import file_stamps, refuse_changes

_SOURCES = ("models", "macros", "dbt_project.yml")
"""What dbt parses, within its project."""

PROJECT = "tokenmart"
"""Name of the project, and so of dbt's package."""

_HOOKS = ("pre-hook", "post-hook")

_OF_META = ("family", "direction", "admissible", "needs", "caution")

_KEPT = ("DBT_TARGET_PATH", "DBT_LOG_PATH")
"""Variables of dbt that reach it. All others may be those of another project: its profile, its
target, its flags."""

# dbt makes millions of Python objects, and nearly all live until it ends. Looking for garbage
# among them takes a sixth of dbt's own time. The folder dbt runs in is nowhere to import from.
_CHILD = f"""{NOT_FROM_HERE}import gc
gc.disable()
from dbt.cli.main import cli
cli(prog_name="dbt")
"""


def command() -> list[str]:
    """The beginning of a command line for dbt."""
    return [sys.executable, "-c", _CHILD]


def run_dbt(arguments: Sequence[str], workspace: Workspace, log: IO[bytes] | None = None) -> int:
    """Run dbt in the project's folder, with the workspace's data and database.

    DuckDB's file has one writer: while another dbt builds, its message names that process.

    Args:
        log: where its output goes; None for this process's own output.

    Returns:
        dbt's exit status.

    Raises:
        StorageError: a file of the store isn't what was written there, now that dbt has run.
    """
    workspace.database.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    before = file_stamps(workspace)
    done = subprocess.run(
        [*command(), *arguments],
        cwd=workspace.dbt_project,
        env={**inherited("DBT_", _KEPT), **workspace.environment()},
        stdout=log,
        stderr=log,
        check=False,
    )
    refuse_changes(workspace, before)
    return done.returncode


@validated(frozen=True)
class Metric:
    """A metric as its SQL file and the YAML beside it declare it.

    name: of the metric, its file and its table.
    family: its heading in the catalogue.
    direction: which values are better, `higher` or `lower`.
    admissible: whether an official submission may use it.
    needs: the kind of probe it is computed from (`full`, `window`, `retrieval`, …).
    caution: what to be careful about, if anything.
    description: formula, what it measures, source, unit and traps.
    variants: name → settings, as the macro `metric` lists them; `core` is built by default.
    """

    name: str
    family: str
    direction: Literal["higher", "lower"]
    admissible: bool
    needs: str
    caution: str | None = None
    description: str = ""
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def formula(self) -> str:
        """The first code in the description."""
        code = re.search(r"`([^`]+)`", self.description)
        return code[1] if code else ""

    def definition(self, variant: str) -> str:
        """What the values of a variant are computed by: its settings, and SQL of its own."""
        settings = {k: v for k, v in self.variants[variant].items() if k != "core"}
        return json.dumps(settings, sort_keys=True)


def read_metrics(workspace: Workspace) -> dict[str, Metric]:
    """All metrics of the project's files, by name.

    Raises:
        TokenmartError: dbt can't parse the project, or see `metrics_in`.
    """
    return metrics_in(current_manifest(workspace))


def metrics_in(manifest: Mapping[str, Any]) -> dict[str, Metric]:
    """All metrics of a manifest, by name.

    Raises:
        TokenmartError: the YAML of a metric lacks an entry of `meta` or has a wrong one
            (`metric-meta`).
    """
    metrics = {}
    for node in manifest["nodes"].values():
        meta = node.get("config", {}).get("meta", {})
        if node.get("resource_type") == "model" and "metric" in meta:
            name = meta["metric"]
            of_meta = {key: meta[key] for key in _OF_META if key in meta}
            variants = {each: meta["defaults"] | row for each, row in meta["variants"].items()}
            try:
                metrics[name] = Metric(
                    name=name, description=node.get("description", ""), variants=variants, **of_meta
                )
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                where = f"{name}.yml: meta.{first['loc'][0]}"
                raise TokenmartError(
                    f"{where}: {first['msg']}", code="metric-meta", where=where
                ) from error
    return dict(sorted(metrics.items()))


def manifest_path(workspace: Workspace) -> Path:
    """The manifest of dbt's last run."""
    return workspace.dbt_project / (os.environ.get("DBT_TARGET_PATH") or "target") / "manifest.json"


def current_manifest(workspace: Workspace) -> dict[str, Any]:
    """dbt's manifest of the project's files as they are; dbt parses them if one is newer.

    Raises:
        TokenmartError: dbt can't parse the project.
    """
    path = manifest_path(workspace)
    if not path.is_file() or _latest(workspace.dbt_project) > path.stat().st_mtime:
        with tempfile.TemporaryFile() as log:
            failed = run_dbt(("--quiet", "parse"), workspace, log)
            log.seek(0)
            output = log.read().decode(errors="replace").strip()
        if failed:
            raise TokenmartError(f"{workspace.dbt_project}: {output}", code="dbt-parse")
    return read_manifest(path)


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of dbt's last run, whatever has changed since.

    Raises:
        TokenmartError: there is none, or it can't be read.
    """
    try:
        manifest: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise TokenmartError(
            f"{path}: dbt's manifest can't be read ({error}); run `tokenmart dbt build`",
            code="dbt-manifest",
            where=path,
        ) from error
    return manifest


@dataclass(frozen=True)
class Lineage:
    """Everything above one metric in dbt's graph.

    Target scores need no search here: dbt's connection can't open their files (see
    `warehouse.sql.connection.lock`), and it has no model in Python (`generate_schema_name`). What
    is checked is a table brought as a seed or snapshot.

    node: dbt's unique id of the metric's model.
    ancestors: unique ids, sorted.
    foreign: ids among them that aren't SQL over the store: seeds and snapshots. They can have
        numbers from anywhere, so this must be empty.
    needs: the kind of probe that the metric is computed from (`full`, `window`, …).
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
    manifest = read_manifest(path)
    node = f"model.tokenmart.{metric}"
    if node not in manifest["nodes"]:
        raise TokenmartError(
            f"{path}: no model {node}; run `tokenmart dbt build`",
            code="unknown-metric",
            where=metric,
        )
    above = _ancestors(manifest, node)
    return Lineage(
        node=node,
        ancestors=tuple(sorted(above)),
        foreign=tuple(sorted(name for name in above if not name.startswith(("model.", "source.")))),
        needs=manifest["nodes"][node]["config"]["meta"]["needs"],
    )


def metric_code(manifest: Mapping[str, Any], metric: str) -> dict[str, str]:
    """The code in dbt's project that a metric's values are computed by.

    That is the SQL of its model, of all models above it and of those that combine its documents to
    `metric_values`, the macros that these use, macros that replace one of dbt's, and all hooks.
    Other metrics are left out, also of the list of all metrics.

    Returns:
        Text by name: `fct_tokens.sql`, `macro metric`, `hooks`.
    """
    nodes, macros = manifest["nodes"], manifest["macros"]
    node_id, values = (f"model.{PROJECT}.{name}" for name in (metric, "metric_values"))
    covered = {node_id} | _ancestors(manifest, node_id)
    others = {name for name, node in nodes.items() if "metric" in node["config"].get("meta", {})}
    others -= covered
    covered |= {values} | _ancestors(manifest, values, others)
    named = "|".join(sorted(name.rpartition(".")[2] for name in others)) or "-"
    of_others = re.compile(rf"""\s*\bref\(['"](?:{named})['"]\),?""")
    code_of = {}
    used: set[str] = set()
    for node in (nodes[name] for name in covered if name in nodes):
        # a seed has no SQL, but a checksum
        code = node["raw_code"] or node["checksum"]["checksum"]
        code_of[Path(node["original_file_path"]).name] = of_others.sub("", code)
        used.update(node["depends_on"]["macros"])
    hooks = []
    for node in nodes.values():
        hooks += [hook["sql"] for key in _HOOKS for hook in node["config"].get(key, ())]
        if node["resource_type"] == "operation":
            hooks.append(node["raw_code"])
            used.update(node["depends_on"]["macros"])
    code_of["hooks"] = json.dumps(sorted(hooks))
    of_dbt = {each["name"] for each in macros.values() if each["package_name"] != PROJECT}
    used |= {name for name, each in macros.items() if each["name"] in of_dbt}
    waiting = list(used)
    while waiting:
        fresh = set(macros[waiting.pop()]["depends_on"]["macros"]) - used
        used |= fresh
        waiting.extend(fresh)
    for macro in (macros[name] for name in used):
        if macro["package_name"] == PROJECT:
            code_of[f"macro {macro['name']}"] = macro["macro_sql"]
    return dict(sorted(code_of.items()))


def _ancestors(manifest: Mapping[str, Any], node: str, left_out: Collection[str] = ()) -> set[str]:
    """Unique ids of everything above a node; not through those left out."""
    above: set[str] = set()
    waiting = [node]
    while waiting:
        fresh = set(manifest["parent_map"].get(waiting.pop(), ())) - above - set(left_out)
        above |= fresh
        waiting.extend(fresh)
    return above


def in_contexts(variant: str, contexts: Iterable[str]) -> list[str]:
    """The names of a variant in a problem: one for each context, `""` where none is named."""
    return [f"{variant}@{context}" if context else variant for context in contexts]


def _latest(project: Path) -> float:
    """When one of the project's files or folders last changed."""
    paths = [path for name in _SOURCES for path in ((project / name), *(project / name).rglob("*"))]
    return max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)
