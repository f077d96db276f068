"""What every refusal looks like."""

from __future__ import annotations

from click.testing import Result


def refused(result: Result, code: int = 2) -> str:
    """Exit code, no traceback, one line on stderr, nothing printed as a result."""
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    line = result.stderr
    assert line.startswith("error: ") and line.endswith("\n") and line.count("\n") == 1
    assert len(line) < 4000
    return line
