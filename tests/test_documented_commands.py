"""Every command that README, docs and `--help` show is parsed; every option they name exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tokenmart import COMMANDS, cli

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
FOR_DBT = {"--grids", "--project-dir", "--select", "--static", "--vars"}
"""Options of `tokenmart dbt`, which takes any."""


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command and subcommand, by its words."""
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            for below, each in command.commands.items():
                yield f"{name} {below}", each


def examples() -> Iterator[tuple[str, str]]:
    """Where a command is shown, and its line."""
    for page in PAGES:
        blocks = re.findall(r"```(?:console|bash|sh)\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
        lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
        for line in whole_lines([line.removeprefix("$ ") for line in lines]):
            for command_line in line.split(" && "):
                yield page.name, command_line
        for code in re.findall(r"`(tokenmart [^`]+)`", page.read_text("utf-8")):
            for command_line in " ".join(code.split()).split(" && "):
                yield page.name, command_line
    for name, command in commands():
        for line in whole_lines((command.help or "").replace("\\\n", " ").splitlines()):
            if line.startswith("tokenmart "):
                yield f"{name} --help", line


def whole_lines(lines: list[str]) -> Iterator[str]:
    """Lines without indentation, those with an open quotation mark joined with what follows."""
    waiting = ""
    for line in lines:
        waiting = f"{waiting} {line.strip()}".strip()
        if not waiting.startswith("tokenmart ") or waiting.count('"') % 2 == 0:
            yield waiting
            waiting = ""


EXAMPLES = sorted({(where, line) for where, line in examples() if line.startswith("tokenmart ")})


def test_examples_are_found() -> None:
    assert len(EXAMPLES) > 60
    shown = {line.split()[1] for _, line in EXAMPLES}
    assert set(COMMANDS) - shown == set(), "a command without an example"


@pytest.mark.parametrize(("where", "line"), EXAMPLES, ids=lambda value: value[:60])
def test_an_example_is_a_command_with_options_that_exist(where: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    words = words[: words.index(">")] if ">" in words else words
    context = click.Context(cli)
    command: click.Command = cli
    while isinstance(command, click.Group):
        if not words:
            return  # a group by name
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"{where}: no command {name!r} in: {line}"
        command = found
    try:
        command.make_context(command.name, words)
    except (click.MissingParameter, click.BadOptionUsage):
        # in running text a command may stand without what it, or its last option, needs
        assert where.endswith(".md"), line


def test_every_option_that_a_page_names_exists() -> None:
    known = {option for _, command in commands() for each in command.params for option in each.opts}
    known |= {"--help", *FOR_DBT}
    for script in [*ROOT.glob("scripts/*.py"), *ROOT.glob("benchmarks/*.py")]:
        known |= set(re.findall(r"[\"'](--[a-z-]+)[\"']", script.read_text("utf-8")))
    known |= {option for text in known for option in text.split("/")}
    for page in PAGES:
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text("utf-8")))
        assert named - known == set(), page


@pytest.mark.parametrize(("name", "command"), commands(), ids=lambda value: str(value)[:40])
def test_every_option_is_explained(name: str, command: click.Command) -> None:
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.help, f"{name} {option.opts[0]}"
            assert option.help.rstrip(")").endswith("."), f"{name} {option.opts[0]}: {option.help}"


def test_programs_beside_the_command_exist() -> None:
    for page in PAGES:
        text = page.read_text("utf-8")
        for target in re.findall(r"^\$ make ([a-z]+)", text, re.MULTILINE):
            assert f"\n{target}:" in (ROOT / "Makefile").read_text()
        for script in re.findall(r"python ((?:scripts|benchmarks)/\S+\.py)", text):
            assert (ROOT / script).is_file(), script
