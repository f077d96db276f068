"""A scratch checkout with made-up documents and made-up labels under the locked paths."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.rehearsal.made_up_text import fine_token_counter, made_up_text, text_of_tokens
from warehouse.paths import Workspace, find_workspace
from warehouse.problem.spec import FileTarget, Problem, load_problem

CHECKOUT = Path(__file__).resolve().parents[2]
PROBLEM = "no4k"
DOCUMENTS = 50
MADE_UP = "MADE UP for a rehearsal: random numbers, no model was measured"

LONGER, FULL = 1, 2
"""Documents of a thousand tokens, and of the true length; all others are short."""
TRUE_LENGTH = 32_768 + 7
"""Tokens of the longest document to the models that see its true length."""


@dataclass(frozen=True)
class Scratch:
    """A checkout of its own: code from here, data nowhere else.

    Attributes:
        root: its folder.
        endpoint: of the local hub.
        token: what the client shows to the hub.
    """

    root: Path
    endpoint: str
    token: str

    @property
    def workspace(self) -> Workspace:
        """Its folders."""
        root = self.root
        return Workspace(root, root / "data", root / "warehouse" / "tokenmart.duckdb")

    @property
    def problem(self) -> Problem:
        """The shipped problem file, unchanged."""
        return load_problem(PROBLEM, self.workspace)

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a program with this hub and this checkout, no other cache and no other token."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HF_", "HUGGING", "TRANSFORMERS_", "TOKENMART_", "DBT_"))
            and not name.lower().endswith("_proxy")
        }
        own = {
            "HF_ENDPOINT": self.endpoint,
            "HF_HOME": str(self.root / "hub"),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_TOKEN": self.token,
            "NO_PROXY": "127.0.0.1,localhost",
            "PYTHONPATH": str(CHECKOUT),
            **self.workspace.environment(),
        }
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=self.root,
            env=kept | own,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str) -> str:
        """The output of a `tokenmart` command, which must succeed."""
        process = self.start("-m", "tokenmart", *arguments)
        output, _ = process.communicate()
        assert process.returncode == 0, f"{arguments}: {output[-3000:]}"
        return output


def make_checkout(root: Path, tokenizers: Path) -> None:
    """Problem files, dbt project, scripts, and the locked files as a user places them by hand."""
    here = find_workspace(CHECKOUT)
    ignored = shutil.ignore_patterns("target", "logs", "__pycache__")
    shutil.copytree(here.dbt_project, root / "dbt_project", ignore=ignored)
    shutil.copytree(here.problems, root / "data" / "problems")
    shutil.copytree(CHECKOUT / "scripts", root / "scripts", ignore=ignored)
    (root / "warehouse").mkdir()
    problem = load_problem(PROBLEM, Scratch(root, "", "").workspace)
    rows = [
        {"id": f"made-up-{number:02d}", "text": text}
        for number, text in enumerate(_texts(tokenizers))
    ]
    _write(root / "data" / "proxy" / "govreport_50_32k_tokens.json", rows)
    rng = np.random.default_rng(17)
    labels = {spec.full_id: {"overall": round(float(rng.random()), 4)} for spec in problem.models}
    assert isinstance(problem.target, FileTarget)
    _write(root / problem.target.path, {"note": MADE_UP, "models": labels})


def _texts(tokenizers: Path) -> list[str]:
    """Fifty texts, most of them short; one is too long by a few tokens for two models."""
    count = fine_token_counter(tokenizers)
    rng = np.random.default_rng(50)
    texts = [made_up_text(number, int(rng.integers(300, 900))) for number in range(DOCUMENTS)]
    texts[LONGER] = made_up_text(LONGER, 6_000)
    texts[FULL] = text_of_tokens(FULL, TRUE_LENGTH, count)
    return texts


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), "utf-8")
