"""The documentation site: it builds without a warning, its links work, and it needs no network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import click
import pytest
import yaml
from documented import ABSENT

from tokenmart import FUNCTIONS, cli
from warehouse.store.schema import all_tables

ROOT = Path(__file__).parents[1]
BUILD = (sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(ABSENT), reason="pages lead to those of plugins that were removed"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; mkdocs stops at a link that leads nowhere, and at a page without an entry."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [*BUILD, str(folder)], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@cache
def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def test_every_link_leads_to_a_page_and_a_heading(site: Path) -> None:
    broken = []
    for page in site.rglob("*.html"):
        for link in re.findall(r'(?:href|src)="([^"]*)"', text_of(page)):
            target, _, fragment = unquote(unescape(link)).partition("#")
            if re.match(r"[a-z]+:", target) or page.name == "404.html":
                continue
            file = (page.parent / target).resolve() if target else page
            if not file.is_file():
                broken.append(f"{page.relative_to(site)}: {link}")
            elif (
                fragment
                and not fragment.startswith("__")
                and f'id="{fragment}"' not in (text_of(file))
            ):
                broken.append(f"{page.relative_to(site)}: {link}: no such heading")
    assert broken == []


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    outside = r'<(?:script|img|iframe|source)[^>]*\ssrc="(?:https?:)?//|<link[^>]*href="https?://'
    assert [page.name for page in site.rglob("*.html") if re.search(outside, text_of(page))] == []
    assert "fonts.g" not in "".join(text_of(page) for page in site.rglob("*.html"))
    assert not [page for page in site.rglob("*.html") if 'class="mermaid"' in text_of(page)], (
        "diagrams of mermaid are drawn by a script of another server"
    )


def test_the_reference_has_every_command_table_metric_and_function(site: Path) -> None:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        page = text_of(site / "reference" / "cli" / f"{name}.html")
        below = command.commands if isinstance(command, click.Group) else {}
        for each in below:
            assert f'id="tokenmart-{name}-{each}"' in page
        for option in command.params if command and not below else ():
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[-1] in page
    tables = text_of(site / "reference" / "tables.html")
    assert [name for name in (*all_tables(), "units") if f'id="{name}"' not in tables] == []
    metrics = text_of(site / "reference" / "metrics.html")
    files = sorted(ROOT.glob("dbt_project/models/metrics/*.sql"))
    assert [file.stem for file in files if f'id="{file.stem}"' not in metrics] == []
    python = text_of(site / "reference" / "python.html")
    assert [name for name in FUNCTIONS if f"tokenmart.{name}" not in python] == []
    keys = text_of(site / "reference" / "problem_file.html")
    for key in ("too_long", "min_gap_characters", "labels_known_since", "attention_window"):
        assert f"<code>{key}</code>" in keys


def test_search_finds_pages_without_a_server(site: Path) -> None:
    """The index is a script, since a page opened from disk may not read a JSON file."""
    script = (site / "search" / "search_index.js").read_text("utf-8")
    index = json.loads(script.removeprefix("var __index = "))
    found = {entry["location"] for entry in index["docs"] if "retrieval_gain" in entry["title"]}
    assert any(location.startswith("reference/metrics.html") for location in found)
    assert "javascripts/iframe-worker.js" in text_of(site / "index.html")


def test_each_written_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = set(re.findall(r"- ([\w/]+\.md)$", text, re.MULTILINE))
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert written == listed - {"index.md"}, "the home page is the README"
    assert yaml.safe_load(text)["theme"]["font"] is False
