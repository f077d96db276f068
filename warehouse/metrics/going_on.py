"""How a build goes on when a metric family is broken: without that family, on a copy of links."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warehouse.metrics.lineage import manifest_path
from warehouse.metrics.registry import FOLDERS, LIST, Family, refresh_list
from warehouse.paths import Workspace

RESULTS = "run_results.json"
_FAILED = {"error", "fail", "runtime error"}
_NOT_LINKED = shutil.ignore_patterns("target", "logs", ".user.yml", Path(LIST).name)


@dataclass(frozen=True)
class Overlay:
    """A temporary checkout whose dbt project lacks some families; the rest are links."""

    root: Path

    @property
    def project(self) -> Path:
        """The dbt project's folder."""
        return self.root / "dbt_project"

    @property
    def target(self) -> Path:
        """Where dbt leaves what it knows of a run."""
        return self.root / "target"

    def environment(self) -> dict[str, str]:
        """Variables that point a dbt run at it."""
        return {"TOKENMART_HOME": str(self.root), "DBT_TARGET_PATH": str(self.target)}


def broken_families(families: Sequence[Family], target: Path, output: str) -> list[str]:
    """Families that failed in a dbt run: their SQL, one of their tests, or their text.

    Args:
        families: all of them.
        target: where dbt left what it knows of the run.
        output: what it printed; names the file that it couldn't parse.
    """
    names = {family.metric for family in families}
    results = _read(target / RESULTS).get("results")
    if results is None:
        files = "|".join(re.escape(folder) for folder in FOLDERS)
        found = set(re.findall(rf"(?:{files})/(?:\w+/)*(\w+)\.\w+", output))
        return sorted(found & names)
    nodes = _read(target / "manifest.json").get("nodes", {})
    failed = set()
    for result in results:
        if result["status"] in _FAILED:
            kind, _, name, *_ = result["unique_id"].split(".")
            if kind == "test":
                tested = nodes.get(result["unique_id"], {}).get("attached_node") or ".."
                name = tested.split(".")[2]
            failed.add(name)
    return sorted(failed & names)


@contextmanager
def overlay_without(workspace: Workspace, broken: Sequence[str]) -> Iterator[Overlay]:
    """A copy of the project without these families, as long as the block runs.

    dbt's lineage graph of what was built last takes the place of the project's own.
    """
    with tempfile.TemporaryDirectory(prefix="tokenmart-") as folder:
        overlay = Overlay(Path(folder))
        shutil.copytree(
            workspace.dbt_project, overlay.project, ignore=_NOT_LINKED, copy_function=_link
        )
        for top in (*FOLDERS, "variants"):
            for path in (overlay.project / top).rglob("*"):
                if path.stem in broken:
                    path.unlink()
        refresh_list(overlay.project)
        yield overlay
        with suppress(OSError):
            shutil.copy(overlay.target / "manifest.json", manifest_path(workspace))


def _link(source: str, place: str) -> None:
    Path(place).symlink_to(Path(source).resolve())


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError):
        return {}
