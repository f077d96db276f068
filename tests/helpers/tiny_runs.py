"""Running `tokenmart extract` on a tiny problem, and what it published."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result
from tiny_requests import DEVICE

from extract.cli import extract

CONDITIONS = ("full", "window_24", "retrieval_with", "retrieval_without")


def run(path: Path, *options: str) -> Result:
    return CliRunner().invoke(extract, ["--problem", str(path), "--device", DEVICE, *options])


def ok(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.output


def one_line_error(result: Result, code: int) -> str:
    """The last line of a failed command; it must be an error and not a traceback."""
    assert result.exit_code == code, (result.exit_code, result.output)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    return result.output.strip().splitlines()[-1]
