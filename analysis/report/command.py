"""What `tokenmart report` does: gather, draw, write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console

from analysis.report.data import gather
from analysis.report.page import figure_files, report_page
from analysis.report.svg import file_png, file_svg
from warehouse.errors import StorageError
from warehouse.paths import find_workspace
from warehouse.problem.spec import load_problem


def run_report(
    problem_name: str, out: Path, figures: Path | None, resamples: int, seed: int
) -> None:
    """Write the page, and the figures where asked."""
    workspace = find_workspace()
    problem = load_problem(problem_name, workspace)
    console = Console(stderr=True)
    with console.status("reading the marts and bootstrapping"):
        data = gather(problem, workspace, seed, resamples)
    with console.status("drawing"), _storing(out):
        page = report_page(data)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page, encoding="utf-8")
    click.echo(f"written {out} ({len(page.encode()) / 1e6:.1f} MB)")
    if figures is not None:
        with console.status("drawing files"), _storing(figures):
            figures.mkdir(parents=True, exist_ok=True)
            for name, chart in figure_files(data).items():
                (figures / f"{name}.svg").write_text(file_svg(chart), encoding="utf-8")
                (figures / f"{name}.png").write_bytes(file_png(chart))
        click.echo(f"written {figures} (PNG and SVG)")


@contextmanager
def _storing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path}: can't be written ({error.strerror}); choose another"
        ) from error
