"""MkDocs hook of the documentation site: generated pages, pages from outside docs/, and links.

`mkdocs.yml` names this file. It adds the README as the home page, the pages of `studies/`, the
benchmark results, and the reference that `docs_reference.py` generates from the code. Links in
Markdown point to files of the repository, so that they work in a browser of the repository. On the
site, a link to a page becomes a link to the page's path on the site, and a link to any other file
becomes the file's path as text. A link to `docs/reference/index.md` with the title of a generated
page becomes a link to this page.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT, ROOT / "scripts"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import docs_reference  # noqa: E402

OUTSIDE = {
    "README.md": "index.md",
    "benchmarks/RESULTS.md": "findings/measurements.md",
    "data/published/README.md": "findings/published_tables.md",
    "plugins/benchmarks/README.md": "reference/plugins/benchmarks.md",
    "plugins/merging/README.md": "reference/plugins/merging.md",
    "plugins/cluster/README.md": "reference/plugins/cluster.md",
}
"""File of the repository → its path on the site; pages of `studies/` are added."""

REFERENCE = "docs/reference/index.md"
GENERATED = {
    "Commands": "reference/cli/index.md",
    "Problem file": "reference/problem_file.md",
    "Tables of the store": "reference/tables.md",
    "Metrics": "reference/metrics.md",
    "Python": "reference/python.md",
}
"""Title of a generated page, as in the table of `REFERENCE` → its path on the site."""

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```\s*?$)", re.MULTILINE | re.DOTALL)


def outside_pages() -> dict[str, str]:
    """Markdown files outside docs/ that exist → their path on the site, studies first.

    Studies are in the order of the findings page.
    """
    overview = (ROOT / "docs" / "findings" / "index.md").read_text("utf-8")
    studies = {
        path.relative_to(ROOT).as_posix(): f"findings/{path.parent.name}/index.md"
        for path in sorted(
            ROOT.glob("studies/*/README.md"), key=lambda path: overview.find(path.parent.name)
        )
    }
    return {path: to for path, to in {**studies, **OUTSIDE}.items() if (ROOT / path).is_file()}


def outside_images() -> dict[str, str]:
    """Images of the studies → their path on the site."""
    return {
        path.relative_to(ROOT).as_posix(): f"findings/{path.parent.name}/{path.name}"
        for suffix in ("svg", "png")
        for path in sorted(ROOT.glob(f"studies/*/*.{suffix}"))
    }


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Complete the navigation with the pages that are generated."""
    sections: dict[str, list[Any]] = {
        name: pages
        for entry in config.nav or []
        if isinstance(entry, dict)
        for name, pages in entry.items()
    }
    pages = outside_pages()
    sections["Findings"] += [page for page in pages.values() if page.startswith("findings/")]
    sections["Reference"] += docs_reference.navigation()
    plugins = [page for page in pages.values() if page.startswith("reference/plugins/")]
    sections["Reference"].append({"Plugins": plugins})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the reference and those from outside docs/."""
    for path, to in {**outside_pages(), **outside_images()}.items():
        files.append(File.generated(config, to, abs_src_path=str(ROOT / path)))
    for to, text in docs_reference.pages().items():
        files.append(File.generated(config, to, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page, code blocks excepted.

    Raises:
        PluginError: a link leads to a file that does not exist.
    """
    here = page.file.src_uri
    if here in docs_reference.pages():
        return markdown  # generated with links of the site
    origins = {to: path for path, to in outside_pages().items()}
    source = origins.get(here, f"docs/{here}")
    if source == REFERENCE:
        for title in GENERATED:
            markdown = markdown.replace(f"| {title} |", f"| [{title}](index.md) |")
    parts = FENCE.split(markdown)
    for index in range(0, len(parts), 2):
        parts[index] = LINK.sub(lambda match: rewritten(match, source, here), parts[index])
    return "".join(parts)


def rewritten(match: re.Match[str], source: str, here: str) -> str:
    """One link of a Markdown file, rewritten for the site.

    Args:
        match: a match of `LINK`.
        source: the file in the repository that contains the link.
        here: the path of its page on the site.

    Raises:
        PluginError: the file does not exist.
    """
    target, text = match["target"], match["text"]
    if re.match(r"[a-z]+:|#", target):
        return match[0]
    path, _, fragment = target.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if (ROOT / path).is_dir() and (ROOT / path / "README.md").is_file():
        path = f"{path}/README.md"
    to = {**outside_pages(), **outside_images()}.get(path)
    if path == REFERENCE and text in GENERATED:
        to = GENERATED[text]
    elif to is None and path.startswith("docs/"):
        to = path.removeprefix("docs/")
    if to is not None:
        relative = os.path.relpath(to, posixpath.dirname(here) or ".").replace(os.sep, "/")
        return f"{match['image']}[{text}]({relative}{'#' + fragment if fragment else ''})"
    if not (ROOT / path).exists():
        raise PluginError(f"{source}: the link {target!r} points to a file that does not exist")
    plain = text.strip("`")
    if plain in (path, posixpath.basename(path)):
        return f"`{path}`"
    in_brackets = match.string[match.end() : match.end() + 1] == ")"
    return f"{text}: `{path}`" if in_brackets else f"{text} (`{path}`)"
