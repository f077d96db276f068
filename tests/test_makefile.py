"""The Makefile's recipes call what exists, with what the user gave."""

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
READY = ("-o", ".venv/.ready", "-o", ".venv/.ready-to-run")

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    # `make test` runs this inside another make, which would add its own lines
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    command = ["make", *READY, *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=outside | variables, timeout=60
    )


def test_recipes_call_commands_that_exist_with_what_is_given():
    targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    done = make("-n", *targets, SUBMISSION="s.json", OUT="r.json")
    assert done.returncode == 0, done.stderr
    recipes = re.sub(r"\\\n\s*", "", done.stdout)
    called = set(re.findall(r"\.venv/bin/tokenmart (\w+)", recipes))
    assert {"data", "extract", "dbt", "correlate", "report", "sql"} <= called
    assert called <= set(cli.list_commands(click.Context(cli)))
    assert 'scripts/verify_locked_no4k.py --submission "s.json"' in recipes
    assert '--metric-key "score" --out "r.json"' in recipes
    demo = re.findall(r"tokenmart (\w+)", make("-n", "demo").stdout)
    assert demo == ["data", "extract", "dbt", "correlate", "report"]
    assert "extract --problem no4k" in make("-n", "extract").stdout
    assert "extract --problem mine.yml" in make("-n", "extract", PROBLEM="mine.yml").stdout
    assert make("verify").returncode != 0


def test_a_query_reaches_the_command_as_it_was_typed(tmp_path):
    query = "select 'a' as \"b\", $x, `id`"
    fake = tmp_path / "tokenmart"
    fake.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    fake.chmod(0o755)
    done = make("sql", f"QUERY={query.replace('$', '$$')}", f"TOKENMART={fake}")
    assert done.stdout == f"sql|{query}|"
    assert make("sql", f"TOKENMART={fake}", QUERY=query).stdout == f"sql|{query}|"


def test_the_lock_is_only_exact_constraints():
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    exact = re.compile(r"#.*|[a-z0-9._-]+==[A-Za-z0-9.!]+( ; [^;]+)?")
    assert [line for line in lines if not exact.fullmatch(line)] == []
    names = {line.partition("==")[0] for line in lines}
    assert not [name for name in names if re.match(r"nvidia|cuda|triton", name)]
    assert {"torch", "transformers", "duckdb", "dbt-core", "dbt-duckdb", "pytest"} <= names
