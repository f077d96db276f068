"""A scratch checkout with made-up documents and made-up labels under the locked paths."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

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
class Done:
    """One finished command."""

    arguments: tuple[str, ...]
    code: int
    output: str
    seconds: float

    def __str__(self) -> str:
        return f"`{' '.join(self.arguments)}` ended with {self.code}:\n{self.output[-3000:]}"


@dataclass(frozen=True)
class Scratch:
    """A checkout of its own: code from here, data nowhere else.

    Attributes:
        root: its folder.
        endpoint: of the local hub.
        token: what the client shows to the hub; None for nothing.
        extra: further environment variables.
    """

    root: Path
    endpoint: str
    token: str | None = None
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def workspace(self) -> Workspace:
        """Its folders."""
        root = self.root
        return Workspace(root, root / "data", root / "warehouse" / "tokenmart.duckdb")

    @property
    def problem(self) -> Problem:
        """The shipped problem file, unchanged."""
        return load_problem(PROBLEM, self.workspace)

    @property
    def hub_cache(self) -> Path:
        """Where the hub's client keeps its downloads."""
        return self.root / "hub"

    def environment(self) -> dict[str, str]:
        """What a command sees: this hub, this checkout, no other cache and no other token."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HF_", "HUGGING", "TRANSFORMERS_", "TOKENMART_", "DBT_"))
            and not name.lower().endswith("_proxy")
        }
        token = {} if self.token is None else {"HF_TOKEN": self.token}
        return {
            **kept,
            "HF_ENDPOINT": self.endpoint,
            "HF_HOME": str(self.hub_cache),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "NO_PROXY": "127.0.0.1,localhost",
            **self.workspace.environment(),
            **token,
            **self.extra,
        }

    def command(self, *arguments: str) -> list[str]:
        """A `tokenmart` command, as the environment's own script starts it."""
        return [str(Path(sys.executable).with_name("tokenmart")), *arguments]

    def start(self, *arguments: str, log: Path) -> subprocess.Popen[bytes]:
        """Start a command whose output goes to a file."""
        with log.open("wb") as output:
            return subprocess.Popen(
                self.command(*arguments),
                cwd=self.root,
                env=self.environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def run(self, *arguments: str) -> Done:
        """Run a `tokenmart` command to its end."""
        return self.run_program(self.command(*arguments), ("tokenmart", *arguments))

    def run_program(self, program: list[str], shown: tuple[str, ...]) -> Done:
        """Run any command in the checkout."""
        started = time.monotonic()
        done = subprocess.run(
            program,
            cwd=self.root,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Done(shown, done.returncode, done.stdout, time.monotonic() - started)


def make_checkout(root: Path) -> None:
    """The parts of a checkout that commands read: problem files, the dbt project."""
    here = find_workspace(CHECKOUT)
    ignored = shutil.ignore_patterns("target", "logs", "__pycache__")
    shutil.copytree(here.dbt_project, root / "dbt_project", ignore=ignored)
    shutil.copytree(here.problems, root / "data" / "problems")
    (root / "warehouse").mkdir()


def state_true_sizes(root: Path) -> None:
    """Sizes of the look-alikes instead of the published ones: nothing is too large to be tried."""
    file = root / "data" / "problems" / f"{PROBLEM}.yml"
    problem = yaml.safe_load(file.read_text("utf-8"))
    for model in problem["models"]:
        if "base" not in model:
            model.pop("shape")
            model["parameters"] = 1_000_000
    file.write_text(yaml.safe_dump(problem, sort_keys=False), "utf-8")


def place_locked_files(root: Path, tokenizers: Path) -> None:
    """Documents and labels under the problem's locked paths, as a user places them by hand."""
    workspace = Workspace(root, root / "data", root / "warehouse" / "tokenmart.duckdb")
    problem = load_problem(PROBLEM, workspace)
    write_documents(root, _texts(tokenizers))
    rng = np.random.default_rng(17)
    labels = {spec.full_id: {"overall": round(float(rng.random()), 4)} for spec in problem.models}
    assert isinstance(problem.target, FileTarget)
    _write(root / problem.target.path, {"note": MADE_UP, "models": labels})


def write_documents(root: Path, texts: list[str]) -> None:
    """The file with the made-up documents, under its locked path."""
    rows = [{"id": f"made-up-{number:02d}", "text": text} for number, text in enumerate(texts)]
    _write(root / "data" / "proxy" / "govreport_50_32k_tokens.json", rows)


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
