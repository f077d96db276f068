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
    "alias bomb": (GOOD + BOMB, "not-yaml", ":17"),
    "bomb of merges": (GOOD + MERGES, "not-yaml", ":17"),
    "a list in itself": (GOOD.replace("title: A tiny problem", "title: &t [*t]"), "not-yaml", ":2"),
    "a section in itself": (GOOD + "demo: &d {models: *d}\n", "not-yaml", ":16"),
    "brackets": (GOOD + "x: " + "[" * 5000, "not-yaml", ":1"),
    "braces": (GOOD + "x: " + "{a: " * 5000, "not-yaml", ":1"),
    "dashes": (GOOD + "x:\n" + "- " * 5000 + "1", "not-yaml", ":1"),
    "a long number": (
        GOOD.replace("context: 8", "context: " + "9" * 5000),
        "int-type",
        ":14",
    ),
    "a long hexadecimal": (
        GOOD.replace("context: 8", "context: 0x" + "f" * 5000),
        "int-type",
        ":14",
    ),
    "a number beyond a machine's": (
        GOOD.replace("context: 8", f"context: {10**20}"),
        "value-error",
        ":14",
    ),
    "an infinite number": (GOOD.replace("theta: 5000", "theta: .inf"), "finite-number", ":11"),
    "an octal number": (GOOD.replace("context: 8", "context: 010"), "int-type", ":14"),
    "yes for a number": (GOOD.replace("context: 8", "context: yes"), "int-type", ":14"),
    "true for a number": (GOOD.replace("theta: 5000", "theta: true"), "float-type", ":11"),
    "a number to base 60": (GOOD.replace("context: 8", "context: 1:30"), "int-type", ":14"),
    "half a character": (
        GOOD.replace("A tiny", r'"\ud800').replace("problem\nd", 'p"\nd'),
        "not-yaml",
        ":2",
    ),
    "another version of YAML": ("%YAML 9.9\n---\n" + GOOD, "not-yaml", ":1"),
    "the way out": (GOOD.replace("full_id: org/base", "full_id: ../../x"), "unknown-base", ":11"),
    "a letter that looks like another": (
        GOOD.replace("full_id: org/base", "full_id: \N{CYRILLIC SMALL LETTER O}rg/base"),
        "unknown-base",
        ":11",
    ),
    "from right to left": (
        GOOD.replace("id: org/base", "id: org/\u202ebase"),
        "unknown-base",
        ":11",
    ),
    "4,000 probes": (GOOD + "x: [" + "{kind: full}," * 7000 + "]\n", "extra-forbidden", ":16"),
    "no number": (GOOD.replace("theta: 5000", "theta: .nan"), "finite-number", ":11"),
    "a NUL": (GOOD.replace("docs.json", "docs\0.json"), "not-yaml", ":5"),
    "a NUL in quotes": (GOOD.replace("docs.json", r'"docs\0.json"'), "not-yaml", ":5"),
    "an escape in quotes": (
        GOOD.replace("A tiny", r'"\e[2J').replace("problem\nd", 'p"\nd'),
        "not-yaml",
        ":2",
    ),
    "a name of 300": (GOOD.replace("name: tiny", f"name: {'a' * 300}"), "string-too-long", ":1"),
    "an id of 300": (GOOD.replace("org/changed", "o/" + "a" * 300), "string-too-long", ":11"),
    "a path of 300": (GOOD.replace("docs.json", "a" * 300), "value-error", ":5"),
    "a probe of 300": (GOOD.replace("window_8", "w" * 300), "string-pattern-mismatch", ":14"),
    "a key of 1,000": (GOOD + "k" * 1000 + ": 1\n", "extra-forbidden", ":16"),
    "an impossible date": (
        GOOD.replace("A tiny problem", "2026-99-99\ntitle: x"),
        "not-yaml",
        ":3",
    ),
    "a timestamp": (GOOD.replace("A tiny", "!!timestamp x"), "not-yaml", ":2"),
    "binary": (GOOD.replace("A tiny problem", "!!binary 'x'"), "not-yaml", ":2"),
    "an object of Python": (GOOD + "x: !!python/object/apply:os.system [ls]\n", "not-yaml", ":16"),
    "a list as a key": (GOOD + "? [a, b]\n: 1\n", "not-yaml", ":16"),
    "keys of other types": (GOOD + "1: x\nnull: y\ntrue: z\n", "extra-forbidden", ":16"),
    "two documents": (GOOD + "---\n" + GOOD, "not-yaml", ":16"),
    "a tab": (GOOD.replace("  kind: json", "\tkind: json"), "not-yaml", ":4"),
    "no text": ("\x00" * 100, "not-yaml", ":1"),
    "too large": ("# " + "x" * LARGEST_BYTES, "too-large", ""),
    "a page": ("<!DOCTYPE html><html><body>{{ x }}</body></html>", "no-keys", ":1"),
    "thousands of mistakes": (
        GOOD + "".join(f"k{n}: 1\n" for n in range(5000)),
        "extra-forbidden",
        ":16",
    ),
}


@pytest.mark.parametrize("content", HOSTILE, ids=str)
def test_a_hostile_file_is_refused_without_delay(workspace: Workspace, content: str) -> None:
    text, code, line = HOSTILE[content]
    assert text != GOOD
    path = workspace.root / "mine.yml"
    path.write_bytes(text.encode())
    started = time.process_time()
    with pytest.raises(ProblemFileError) as refused:
        load_problem(str(path), workspace)
    assert time.process_time() - started < SECONDS
    assert (refused.value.code, refused.value.where) == (code, f"{path}{line}")
    assert len(refused.value.message) < 12_000


def test_a_hostile_file_has_no_traceback(workspace: Workspace) -> None:
    path = workspace.root / "mine.yml"
    path.write_text(GOOD.replace("context: 8", "context: eight"))
    result = CliRunner().invoke(cli, ["extract", "--problem", str(path), "--dry-run"])
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    assert result.output.startswith(f"error: {path}:14: probes[1].context: 'eight': ")


def test_numbers_with_an_exponent_are_read_as_in_yaml_1_2(workspace: Workspace) -> None:
    path = workspace.root / "mine.yml"
    path.write_text(GOOD.replace("theta: 5000", "theta: 5e3"))
    problem = load_problem(str(path), workspace)
    assert problem.models[1].interventions[0].theta == 5000.0


def test_dates_and_aliases_of_honest_people_are_read(workspace: Workspace) -> None:
    text = GOOD.replace("A tiny problem", "2026-11-22").replace("licence: MIT", "licence: &mit MIT")
    text = text.replace("family: one", "family: &f one\n    note: *f")
    (workspace.problems / "tiny.yml").write_text(text)
    problem = load_problem("tiny", workspace)
    assert (problem.title, problem.models[0].note) == ("2026-11-22", "one")


def test_a_name_that_can_not_be_a_file_is_said(workspace: Workspace) -> None:
    for name in ("x" * 5000, str(Path("y" * 300) / "z.yml")):
        with pytest.raises(ProblemFileError) as refused:
            load_problem(name, workspace)
        assert refused.value.code == "no-problem-file"
