"""Hostile problem files: one line without delay, whatever they contain."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from problem_samples import GOOD

from tokenmart import cli
from warehouse.errors import ProblemFileError
from warehouse.paths import Workspace
from warehouse.problem.spec import load_problem
from warehouse.problem.yaml_file import LARGEST_BYTES

pytestmark = pytest.mark.hostile

SECONDS = 5
BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 30)
)
MERGES = "m0: &m0 {k: 1}\n" + "".join(
    f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}, *m{n - 1}]}}\n" for n in range(1, 30)
)
HOSTILE = {
    "alias bomb": (GOOD + BOMB, "more than 20,000 values, aliases counted in full"),
    "bomb of merges": (GOOD + MERGES, "more than 20,000 values, aliases counted in full"),
    "a list in itself": (
        GOOD.replace("title: A tiny problem", "title: &t [*t]"),
        "contains itself",
    ),
    "a section in itself": (GOOD + "demo: &d {models: *d}\n", "contains itself"),
    "brackets": (GOOD + "x: " + "[" * 5000, "more than 32 levels"),
    "braces": (GOOD + "x: " + "{a: " * 5000, "more than 32 levels"),
    "dashes": (GOOD + "x:\n" + "- " * 5000 + "1", "more than 32 levels"),
    "a long number": (GOOD.replace("context: 8", "context: " + "9" * 5000), "5,000 characters"),
    "a long hexadecimal": (GOOD.replace("context: 8", "context: 0x" + "f" * 5000), "5,002 char"),
    "a number beyond a machine's": (GOOD.replace("context: 8", f"context: {10**20}"), "between"),
    "an infinite number": (GOOD.replace("theta: 5000", "theta: .inf"), "finite number"),
    "yes for a number": (
        GOOD.replace("context: 8", "context: yes"),
        "probes[1].context: 'true': must be a whole number",
    ),
    "true for a number": (
        GOOD.replace("theta: 5000", "theta: true"),
        "interventions[0].theta: 'true': must be a number",
    ),
    "a number to base 60": (GOOD.replace("context: 8", "context: 1:30"), "in decimal, or in quo"),
    "a number to base 8": (GOOD.replace("context: 8", "context: 010"), "write it in decimal"),
    "half a character": (
        GOOD.replace("A tiny", r'"\ud800').replace("problem\nd", 'p"\nd'),
        "control character",
    ),
    "another version of YAML": ("%YAML 9.9\n---\n" + GOOD, "not valid YAML"),
    "the way out": (GOOD.replace("full_id: org/base", "full_id: ../../x"), "must match"),
    "a letter that looks like another": (
        GOOD.replace("full_id: org/base", "full_id: \N{CYRILLIC SMALL LETTER O}rg/base"),
        "must match",
    ),
    "from right to left": (GOOD.replace("id: org/base", "id: org/\u202ebase"), r"\u202e"),
    "4,000 probes": (GOOD + "x: [" + "{kind: full}," * 7000 + "]\n", "20,000 values"),
    "no number": (GOOD.replace("theta: 5000", "theta: .nan"), "theta"),
    "a NUL": (GOOD.replace("docs.json", "docs\0.json"), r"control character '\x00'; remove it"),
    "a NUL in quotes": (GOOD.replace("docs.json", r'"docs\0.json"'), r"control character '\x00'"),
    "an escape in quotes": (
        GOOD.replace("A tiny", r'"\e[2J').replace("problem\nd", 'p"\nd'),
        "x1b",
    ),
    "a name of 300": (GOOD.replace("name: tiny", f"name: {'a' * 300}"), "at most 100"),
    "an id of 300": (GOOD.replace("org/changed", "o/" + "a" * 300), "at most 200"),
    "a path of 300": (GOOD.replace("docs.json", "a" * 300), "more than 255 bytes"),
    "a probe of 300": (GOOD.replace("window_8", "w" * 300), "must match"),
    "a key of 1,000": (GOOD + "k" * 1000 + ": 1\n", "unknown key 'kkkk"),
    "an impossible date": (GOOD.replace("A tiny problem", "2026-99-99\ntitle: x"), "given twice"),
    "a timestamp": (
        GOOD.replace("A tiny", "!!timestamp x"),
        "2002:timestamp' is not read",
    ),
    "binary": (
        GOOD.replace("A tiny problem", "!!binary 'x'"),
        "2002:binary' is not read",
    ),
    "an object of Python": (GOOD + "x: !!python/object/apply:os.system [ls]\n", "is not read"),
    "a list as a key": (GOOD + "? [a, b]\n: 1\n", "a key is one word"),
    "keys of other types": (GOOD + "1: x\nnull: y\ntrue: z\n", "3 mistakes"),
    "two documents": (GOOD + "---\n" + GOOD, "another document"),
    "a tab": (GOOD.replace("  kind: json", "\tkind: json"), "spaces, not tabs"),
    "no text": ("\x00" * 100, "control character"),
    "too large": ("# " + "x" * LARGEST_BYTES, "larger than"),
    "a page": ("<!DOCTYPE html><html><body>{{ x }}</body></html>", ":1: expected keys"),
    "thousands of mistakes": (GOOD + "".join(f"k{n}: 1\n" for n in range(5000)), "5,000 mistakes"),
}


@pytest.mark.parametrize("content", HOSTILE, ids=str)
def test_a_hostile_file_is_one_line_without_delay(workspace: Workspace, content: str) -> None:
    text, message = HOSTILE[content]
    assert text != GOOD
    path = workspace.root / "mine.yml"
    path.write_bytes(text.encode())
    started = time.process_time()
    result = CliRunner().invoke(cli, ["extract", "--problem", str(path), "--dry-run"])
    assert time.process_time() - started < SECONDS
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    first, *more = result.output.splitlines()
    assert first.startswith(f"error: {path}:")
    assert message in result.output
    assert len(result.output) < 12_000
    # a file with several mistakes has a line for each
    assert not more or " mistakes" in first
    assert all(line.startswith(("  ", "and ")) for line in more)


def test_dates_and_aliases_of_honest_people_are_read(workspace: Workspace) -> None:
    text = GOOD.replace("A tiny problem", "2026-11-22").replace("licence: MIT", "licence: &mit MIT")
    text = text.replace("family: one", "family: &f one\n    note: *f")
    (workspace.problems / "tiny.yml").write_text(text)
    problem = load_problem("tiny", workspace)
    assert (problem.title, problem.models[0].note) == ("2026-11-22", "one")


def test_a_name_that_can_not_be_a_file_is_said(workspace: Workspace) -> None:
    with pytest.raises(ProblemFileError, match="no such problem file"):
        load_problem("x" * 5000, workspace)
    with pytest.raises(ProblemFileError, match="no such problem file"):
        load_problem(str(Path("y" * 300) / "z.yml"), workspace)
