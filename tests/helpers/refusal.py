"""What every refusal looks like."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import Result

from warehouse.errors import TokenmartError


@contextmanager
def refuses(code: str, where: str | None = None) -> Iterator[None]:
    """The block raises a `TokenmartError` with this code, and this place if one is given."""
    with pytest.raises(TokenmartError) as caught:
        yield
    assert caught.value.code == code, caught.value
    assert where is None or caught.value.where == where


def refused(result: Result, code: int = 2) -> str:
    """Exit code, no traceback, one line on stderr, nothing printed as a result."""
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    line = result.stderr
    assert line.startswith("error: ") and line.endswith("\n") and line.count("\n") == 1
    assert len(line) < 4000
    return line
