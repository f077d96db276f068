"""Pages, help texts and code use the field's own terms: at most one listed word in 1,000.

The list has words that readers stumbled over because they stand for a term of the field, or make a
thing speak. It finds habits; it can't tell whether a sentence is clear.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from documented import ROOT, commands

LISTED = {
    "anew": "again; recompute",
    "at once": "immediately; together",
    "beside": "next to; as well",
    "brings?|brought": "download; import",
    "first choices?": "top-1; top-k tokens",
    "foretold": "preregistered",
    "gone on with|goes on|going on": "resume; continue",
    "hangs? on": "depends on",
    "lies|lay": "is in; is stored in",
    "luck|lucky": "chance",
    "mend(?:ed|s)?": "correct; repair",
    "nobody|somebody|whoever": "name the actor",
    "owes?": "needs",
    "reckon(?:s|ed|ing)?": "estimate; compute",
    "so many|so much": "a number; how many",
    "stands?|stood": "is; is stored",
    "surpris(?:e|ed|ing)": "NLL",
    "told|tells?": "report; print",
    "told apart|tells? apart": "distinguishable",
    "tries": "number of metrics tested",
    "wavering|wobbles?": "noise",
}
"""Word, as a regular expression → what to write instead."""
PAGES = [
    ROOT / "README.md",
    ROOT / "benchmarks" / "RESULTS.md",
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("studies/*/README.md")),
    *sorted(ROOT.glob("plugins/*/README.md")),
    *sorted(ROOT.glob("dbt_project/docs/*.md")),
]
CODE = [
    *("analysis", "extract", "scripts", "warehouse", "tests"),
    *(
        path.parent.relative_to(ROOT).as_posix()
        for path in sorted(ROOT.glob("plugins/*/README.md"))
    ),
]
"""Folders whose docstrings, comments, messages and test names are read."""
PER_THOUSAND = 1
ALLOWED_TITLES = {"How cost grows with rows"}
FEWEST_WORDS = 1000
"""A shorter page may have one listed word."""


@cache
def texts() -> dict[str, str]:
    """Name → running text of a page without its code, of all help texts, or of a folder's code."""
    found = {}
    for page in PAGES:
        text = re.sub(r"```.*?```|`[^`\n]*`", " ", page.read_text("utf-8"), flags=re.DOTALL)
        found[page.relative_to(ROOT).as_posix()] = text
    help_texts = []
    for _, command in commands():
        help_texts.append(command.help or "")
        help_texts += [option.help for option in command.params if getattr(option, "help", None)]
    found["help texts"] = "\n".join(help_texts)
    for folder in CODE:
        files = sorted((ROOT / folder).rglob("*.py"))
        found[folder] = "\n".join(text for file in files for text in texts_of(file))
    return found


def texts_of(file: Path) -> Iterator[str]:
    """Docstrings, messages, names of tests and comments of a Python file."""
    if file == Path(__file__):
        return
    code = file.read_text("utf-8")
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name.replace("_", " ")
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


@pytest.mark.parametrize("name", sorted(texts()))
def test_a_page_has_at_most_one_listed_word_in_a_thousand(name: str) -> None:
    text = texts()[name]
    found = [
        f"{match[0]} (write: {instead})"
        for word, instead in LISTED.items()
        for match in re.finditer(rf"\b(?:{word})\b", text, re.IGNORECASE)
    ]
    allowed = max(len(text.split()), FEWEST_WORDS) * PER_THOUSAND // 1000
    assert len(found) <= allowed, found


def test_links_on_pages_lead_to_files_and_headings_of_the_repository() -> None:
    """Pages are read in a clone, too, where the generated pages of the site don't exist."""
    link = r"\]\(([^)\s]+)\)|(?:href|src)=\"([^\"]+)\""
    dead = []
    for page in PAGES:
        for target in map("".join, re.findall(link, page.read_text("utf-8"))):
            path, _, heading = target.partition("#")
            file = page.parent / path if path else page
            if re.match(r"[a-z]+:", target):
                continue
            if not file.exists() or (heading and heading not in headings(file)):
                dead.append(f"{page.relative_to(ROOT)}: {target}")
    assert dead == []


def headings(page: Path) -> set[str]:
    """Anchors of a page's headings."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in found}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 900


def test_titles_name_a_thing() -> None:
    riddles = set()
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
            if re.match(r"(What|How|Where|When|Whether|Who)\b(?! to\b)", title):
                riddles.add(title)
    assert riddles - ALLOWED_TITLES == set()


def test_the_list_finds_its_words() -> None:
    patterns = [rf"\b(?:{word})\b" for word in LISTED]
    for sentence in ("luck alone reaches it", "the file lies there", "take the bundle anew"):
        assert any(re.search(pattern, sentence) for pattern in patterns), sentence
