"""Tables of `tokenmart sql`: what fits a terminal, and what is left out to fit it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from warehouse.paths import Workspace
from warehouse.sql.text_table import text_table

NAMES = ["model_id", "short_context_tokens", "mean", "words"]
ROWS = [
    ["gemma3-270m", 5120000000000, -2.5, "the quick brown fox jumped over it"],
    ["qwen", None, Decimal("1.25"), "one\ntwo"],
]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (
            None,
            [
                "model_id     short_context_tokens  mean  words",
                "───────────  ────────────────────  ────  ──────────────────────────────────",
                "gemma3-270m         5120000000000  -2.5  the quick brown fox jumped over it",
                "qwen                               1.25  one\\ntwo",
            ],
        ),
        (
            69,
            [
                "                    short_",
                "                  context_",
                "model_id            tokens  mean  words",
                "───────────  ─────────────  ────  ──────────────────────────────────",
                "gemma3-270m  5120000000000  -2.5  the quick brown fox jumped over it",
                "qwen                        1.25  one\\ntwo",
            ],
        ),
        (
            50,
            [
                "                    short_",
                "                  context_",
                "model_id            tokens  mean  words",
                "───────────  ─────────────  ────  ────────────────",
                "gemma3-270m  5120000000000  -2.5  the quick brown…",
                "qwen                        1.25  one\\ntwo",
            ],
        ),
        (
            40,
            [
                "                    short_",
                "                  context_",
                "model_id            tokens  mean",
                "───────────  ─────────────  ────",
                "gemma3-270m  5120000000000  -2.5",
                "qwen                        1.25",
            ],
        ),
        (
            5,
            ["model_id", "───────────", "gemma3-270m", "qwen"],
        ),
    ],
)
def test_a_table_fits(width: int | None, lines: list[str]) -> None:
    table = text_table(NAMES, ROWS, width)
    assert table.lines == lines
    assert table.hidden == tuple(NAMES[4 if (width or 50) >= 50 else 3 if width == 40 else 1 :])
    assert table.cut is (width == 50)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 160])
@pytest.mark.parametrize(
    "value",
    [12345678901234567890, -1.23456789e-300, Decimal("1e-9"), date(2026, 1, 2), True, None],
)
def test_what_is_no_text_is_never_cut(width: int, value: Any) -> None:
    names = [f"column_{number}" for number in range(9)]
    table = text_table(names, [[value] * 9], width)
    whole = text_table(["x"], [[value]], None).lines[-1].strip()
    assert set(table.lines[-1].split()) <= {whole}
    assert all(len(line) <= max(width, len(whole)) for line in table.lines)
    assert table.cut is False


def test_wide_characters_take_two_columns() -> None:
    table = text_table(["text", "n"], [["日本語のとても長いテキスト", 1], ["abc", 2]], 20)
    assert table.lines[2:] == ["日本語のとても長…  1", "abc                2"]


def test_long_texts_are_whole_when_asked(workspace: Workspace) -> None:
    long = "x" * 200
    assert text_table(["a"], [[long]], None).lines[-1] == "x" * 79 + "…"
    assert text_table(["a"], [[long]], None, whole=True).lines[-1] == long


def test_no_rows() -> None:
    assert text_table(["a_name"], [], 80).lines == ["a_name", "──────", "(no rows)"]


def test_of_many_narrow_columns_those_that_fit_are_shown() -> None:
    table = text_table([f"column{n}" for n in range(9)], [[12345] * 9], 30)
    assert table.lines[-1] == "  ".join(["  12345"] * 3)
    assert table.hidden == tuple(f"column{n}" for n in range(3, 9))


def on_a_terminal(columns: int, *arguments: str) -> list[str]:
    """Lines that `tokenmart sql` shows on a terminal of that many columns."""
    pid, terminal = pty.fork()
    if pid == 0:
        code = "import sys; sys.stdin.readline(); from tokenmart import main; main()"
        # readline sets COLUMNS behind Python's back
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        os.execve(sys.executable, [sys.executable, "-c", code, "sql", *arguments], environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    os.write(terminal, b"\n")
    shown = b""
    try:
        while chunk := os.read(terminal, 65536):
            shown += chunk
    except OSError:  # Linux: the other side has ended
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown
    return shown.decode().replace("\r\n", "\n").strip("\n").split("\n")


@pytest.mark.parametrize("columns", [80, 100, 160])
def test_a_terminal_gets_a_table_that_fits(filled: Workspace, columns: int) -> None:
    *table, note = on_a_terminal(columns, "from units")
    assert max(map(len, table)) <= columns
    assert note.startswith(f"to fit {columns} columns: without ")
    assert note.endswith(" more; --wide shows all")
    assert max(map(len, on_a_terminal(columns, "from units", "--wide"))) > 160


def test_piped_output_is_as_wide_as_columns_asks(filled: Workspace) -> None:
    def piped(**environment: str) -> int:
        done = subprocess.run(
            [sys.executable, "-m", "tokenmart", "sql", "from units"],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return max(map(len, done.stdout.splitlines()))

    assert piped(COLUMNS="80") <= 80
    assert piped(COLUMNS="") > 160


@pytest.mark.parametrize(
    ("texts", "cells"),
    [
        # cut at the end they differ
        (["one-model-of-a-lab", "two-model-of-a-lab"], ["one-model-o…", "two-model-o…"]),
        (["smollm2-135m-drop-1", "smollm2-135m-drop-2"], ["smollm…rop-1", "smollm…rop-2"]),
        # one that differs before the last half keeps more of its end
        (["model-a-of-one-lab", "model-b-of-one-lab"], None),
        (["模型模型模型模型一", "模型模型模型模型二"], ["模型模…型一", "模型模…型二"]),
        # equal ones stay equal
        (["smollm2-135m-drop-1"] * 2, ["smollm2-135…"] * 2),
    ],
)
def test_texts_that_differ_only_at_their_end_are_cut_in_the_middle(
    texts: list[str], cells: list[str] | None
) -> None:
    table = text_table(["m"], [[text] for text in texts], 12)
    found = table.lines[2:]
    assert table.cut
    if cells is None:
        assert len(set(found)) == len(texts)
    else:
        assert found == cells
