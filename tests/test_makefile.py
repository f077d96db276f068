"""The Makefile explains itself, and its recipes call what exists."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from tokenmart import cli

ROOT = Path(__file__).parents[1]
TARGETS = [
    "setup",
    "demo",
    "study",
    "extract",
    "dbt",
    "correlate",
    "report",
    "sql",
    "verify",
]
TARGETS += ["test", "test-slow", "test-scale", "rehearse", "lint", "bench", "docs", "clean"]
TARGETS += ["docs-serve", "dbt-docs"]
READY = ("-o", ".venv/.ready", "-o", ".venv/.ready-to-run")

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    # `make test` runs this inside another make, which would add its own lines
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    environment = {**outside, **variables}
    return subprocess.run(
        ["make", *arguments], cwd=ROOT, capture_output=True, text=True, env=environment, timeout=60
    )


def recipe(*arguments: str, **variables: str) -> str:
    """What make would run, with the environment taken as ready."""
    done = make("-n", *READY, *arguments, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_help_describes_every_target() -> None:
    output = make().stdout
    for target in TARGETS:
        assert re.search(rf"^  {target} +\S", output, re.MULTILINE), f"{target} is not in make help"


def test_recipes_call_commands_that_exist() -> None:
    called = set(re.findall(r"\.venv/bin/tokenmart (\w+)", recipe(*TARGETS, SUBMISSION="x.json")))
    assert {"data", "extract", "dbt", "correlate", "report", "sql"} <= called
    assert called <= set(cli.list_commands(click.Context(cli)))


def test_the_demo_goes_the_whole_road_in_order() -> None:
    steps = re.findall(r"tokenmart (\w+)", recipe("demo"))
    assert steps == ["data", "extract", "dbt", "correlate", "report"]


def test_extract_uses_the_locked_problem_by_default() -> None:
    assert "extract --problem no4k" in recipe("extract")
    assert "extract --problem mine.yml" in recipe("extract", PROBLEM="mine.yml")
    assert "correlate --problem demo" in recipe("correlate")


def test_a_query_reaches_the_command_as_it_was_typed(tmp_path: Path) -> None:
    query = "select 'a' as \"b\", $x, `id`"
    fake = tmp_path / "tokenmart"
    fake.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    fake.chmod(0o755)
    done = make(*READY, "sql", f"QUERY={query.replace('$', '$$')}", f"TOKENMART={fake}")
    assert done.stdout == f"sql|{query}|"
    done = make(*READY, "sql", f"TOKENMART={fake}", QUERY=query)
    assert done.stdout == f"sql|{query}|"


def test_verify_needs_a_submission() -> None:
    done = make(*READY, "verify")
    assert done.returncode != 0
    assert "SUBMISSION=file.json" in done.stderr
    command = recipe("verify", SUBMISSION="s.json", OUT="r.json")
    assert 'scripts/verify_locked_no4k.py --submission "s.json"' in command
    assert '--metric-key "score" --out "r.json"' in command.replace("\\\n\t  ", "").replace(
        "\\\n  ", ""
    )


def test_ci_runs_lint_and_tests() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text()
    assert "set -euo pipefail" in text
    assert re.findall(r"^make (\S+)$", text, re.MULTILINE) == ["lint", "test", "test-slow"]


def test_the_lock_is_only_exact_constraints() -> None:
    lines = [
        line
        for line in (ROOT / "requirements.lock").read_text().splitlines()
        if not line.startswith("#")
    ]
    exact = re.compile(r"[a-z0-9._-]+==[A-Za-z0-9.!]+( ; [^;]+)?")
    assert [line for line in lines if not exact.fullmatch(line)] == []
    names = {line.partition("==")[0] for line in lines}
    assert not [name for name in names if re.match(r"nvidia|cuda|triton", name)]
    assert {"torch", "transformers", "duckdb", "dbt-core", "dbt-duckdb", "pytest"} <= names
