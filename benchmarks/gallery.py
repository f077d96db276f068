"""The pictures of the quickstart: the report and the viewer as a browser shows them.

    make demo && python benchmarks/gallery.py

The report is the finished demo's. The viewer shows a page of this repository's own documentation,
read by the demo's two checkpoints in a scratch folder: no text of others goes into a picture.
Needs Chromium (or CHROMIUM=path).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from browser import run as browse  # noqa: E402

from warehouse.paths import find_workspace  # noqa: E402

READ = "docs/how_to/probes.md"
START = 1500
"""Character at which the picture begins: before, the short window reaches the beginning."""

MODELS = 2
"""The first of minilong, which are its checkpoints."""


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=ROOT / "docs" / "images",
    show_default=True,
    help="Folder for the pictures.",
)
def main(out: Path) -> None:
    """Take the pictures."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        report, viewer = folder / "report.html", folder / "viewer.html"
        tokenmart("report", "--problem", "minilong", "--out", str(report))
        picture(report, out / "report.png", (1100, 1500), folder)
        view(folder, viewer)
        picture(viewer, out / "viewer.png", (1100, 620), folder)


def view(folder: Path, page: Path) -> None:
    """Read our own text with both checkpoints, and write the viewer's page."""
    (folder / "texts").mkdir()
    (folder / "texts" / Path(READ).name).write_bytes((ROOT / READ).read_bytes())
    (folder / "data").mkdir()
    (folder / "data" / "cache").symlink_to(find_workspace().cache)
    minilong = yaml.safe_load((ROOT / "data" / "problems" / "minilong.yml").read_text("utf-8"))
    models = minilong["models"][:MODELS]
    problem = folder / "gallery.yml"
    written = {
        "name": "gallery",
        "title": "A page of our own documentation",
        "documents": {"kind": "folder", "path": "texts", "too_long": "truncate"},
        "models": models,
        "probes": [
            {"kind": "full"},
            {"kind": "window", "name": "window_256", "context": 256, "stride": 256},
        ],
    }
    problem.write_text(yaml.safe_dump(written), encoding="utf-8")
    own = {
        "TOKENMART_DATA": str(folder / "data"),
        "TOKENMART_DATABASE": str(folder / "gallery.duckdb"),
    }
    tokenmart("extract", "--problem", str(problem), **own)
    tokenmart("dbt", "--quiet", "build", **own)
    names = [part for model in models for part in ("--model", model["full_id"])]
    tokenmart(
        "show", "--problem", str(problem), "--document", "0", *names,
        "--measure", "gain", "--start", str(START), "--out", str(page), **own,
    )  # fmt: skip


def picture(page: Path, out: Path, size: tuple[int, int], folder: Path) -> None:
    """The top of a page in a browser; a headless one draws a page that has scrolled with gaps."""
    copy = folder / f"top-{page.name}"
    still = "<head><script>Element.prototype.scrollIntoView = () => {}</script>"
    copy.write_text(page.read_text("utf-8").replace("<head>", still, 1), "utf-8")
    window = f"--window-size={size[0]},{size[1]}"
    browse(copy, folder / "profile", window, f"--screenshot={out}")
    click.echo(f"written {out} ({out.stat().st_size / 1e3:.0f} kB)")


def tokenmart(*arguments: str, **environment: str) -> None:
    """Run a command of the tool."""
    command = [sys.executable, "-m", "tokenmart", *arguments]
    subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=True)


if __name__ == "__main__":
    main()
