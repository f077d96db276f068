"""Output is only text: a terminal obeys nothing that a document, a name or an error holds."""

from __future__ import annotations

import shutil
import sys

import pytest
from click.testing import CliRunner
from sql_samples import unit

from tokenmart import cli, main
from warehouse.errors import visible
from warehouse.paths import Workspace
from warehouse.store.token_files import published_path, read_rows, write_units

pytestmark = pytest.mark.hostile

# clear the screen, set the title, move up, ring, write from right to left, C1 control, go back
EVIL = "\x1b[2J\x1b]0;owned\x07\x1b[1A\u202eevil\x9b31m\rback\x08"
SHOWN = "\\x1b[2J\\x1b]0;owned\\x07\\x1b[1A\\u202eevil\\x9b31m\\rback\\x08"


def harmless(text: str) -> bool:
    return all(c.isprintable() or c in "\n\t" for c in text)


def test_controls_are_shown_and_other_text_stays():
    assert visible(EVIL) == SHOWN
    assert visible("é 漢字 👍\n\tx") == "é 漢字 👍\n\tx"
    assert visible("\ud800") == "\\ud800"


@pytest.mark.parametrize(
    ("words", "code", "count"),
    [
        (["sql", f"select '{EVIL}' as \"{EVIL}\""], 0, 2),
        (["sql", f"explain select 1 where random() = '{EVIL}'"], 0, 0),
        (["sql", f'select "{EVIL}"'], 1, 1),
        ([EVIL], 2, 1),
        (["sql", f"--{EVIL}"], 2, 1),
        (["metrics", "show", EVIL], 1, 0),
        (["sql", "--name", EVIL], 1, 1),
        (["extract", "--problem", "minilong", "--model", EVIL], 1, 1),
        (["extract", "--problem", "minilong", "--probe", EVIL], 1, 1),
        (["status", "--problem", f"minilong{EVIL}"], 1, 1),
    ],
    ids=lambda value: visible(str(value))[:30],
)
def test_words_of_the_command_line(words, code, count, evil_ledger, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tokenmart", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert int(ended.value.code or 0) in ((code, 2) if code else (0,))
    assert harmless(said.out + said.err)
    assert (said.out + said.err).count("\\x1b[2J") >= count


@pytest.fixture
def evil_ledger(filled: Workspace) -> Workspace:
    """Units whose reason and attention hold controls."""
    (filled.problems / "minilong.yml").write_text(
        "name: minilong\ntitle: t\ndocuments: {kind: folder, path: texts}\n"
        "models: [{full_id: bad, family: f, source: {kind: hub}}]\nprobes: [{kind: full}]\n"
    )
    shutil.rmtree(filled.store / "documents")  # units of any text are current
    path = published_path(filled, "minilong", "bad", "full")
    evil = {"attention": f"eager{EVIL}", "over_limit_tokens": 0, "probe_params": "{}"}
    done = unit("bad", "full", 8, **evil)
    failed = unit("bad", "full", 0, doc_id=1, status="failed", reason=EVIL, **evil)
    write_units(path, [done, failed], [read_rows(path)])
    return filled


def test_reasons_in_the_ledger(evil_ledger):
    shown = CliRunner().invoke(cli, ["status", "--problem", "minilong"])
    assert shown.exit_code == 0 and harmless(shown.output)
    assert shown.output.count("\\x1b[2J") == 2
