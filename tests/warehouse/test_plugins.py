"""Plugins: the hooks of those that ship, of a folder, and what a plugin may not add."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from refusal import refuses

from warehouse.plugins import VARIABLE, added, each_of, folders, kinds, manager
from warehouse.probes.kinds import PROBES
from warehouse.store.schema import TABLES, all_tables

PLUGIN = """
from warehouse.plugins import hookimpl

@hookimpl
def tokenmart_{hook}():
    return {value}
"""


def write(path: Path, hook: str, value: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PLUGIN.format(hook=hook, value=value))
    return path


def test_what_ships_adds_commands_that_exist():
    for name, (place, short) in added("commands").items():
        module, attribute = place.split(":")
        assert getattr(importlib.import_module(module), attribute).name == name
        assert short.endswith(".")
    assert {name for name, _ in each_of("tokenmart_tables")} <= {
        name for name, _ in manager().list_name_plugin()
    }


def test_a_file_and_a_package_of_the_variable(tmp_path, monkeypatch):
    one = write(tmp_path / "one.py", "commands", "{'one': ('a:b', 'One.')}")
    two = write(tmp_path / "two" / "__init__.py", "commands", "{'two': ('a:b', 'Two.')}").parent
    monkeypatch.setenv(VARIABLE, f"{one}:{two}")
    assert {"one", "two"} <= added("commands").keys()
    assert two in folders() and one.parent not in folders()


@pytest.mark.parametrize(
    ("name", "ledger"), [("tokens", ""), ("mine_tokens", ""), ("mine", "mine_units")]
)
def test_a_table_that_cannot_have_its_name(name, ledger, tmp_path, monkeypatch):
    path = write(tmp_path / "mine.py", "tables", f"{{{name!r}: table._replace(ledger={ledger!r})}}")
    path.write_text(
        f"from warehouse.store import schema\n{path.read_text()}\ntable = schema.TABLES['tokens']\n"
    )
    monkeypatch.setenv(VARIABLE, str(path))
    with refuses("table-name", name):
        all_tables()
    monkeypatch.delenv(VARIABLE)
    assert all_tables().keys() >= TABLES.keys()


def test_two_classes_of_one_kind(tmp_path, monkeypatch):
    path = tmp_path / "mine.py"
    path.write_text(
        "from warehouse.plugins import hookimpl\n"
        "class Full:\n    kind = 'full'\n"
        "@hookimpl\ndef tokenmart_classes(kind):\n    return [Full] if kind == 'probes' else []\n"
    )
    monkeypatch.setenv(VARIABLE, str(path))
    with refuses("kind-twice", "full"):
        kinds("probes", PROBES)
