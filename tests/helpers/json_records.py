"""Reading what a command's `--json` prints, which the published schema describes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
from click.testing import Result

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "records.schema.json"


def records(done: Result, names: str, code: int = 0) -> list[dict[str, Any]]:
    """The records of a command; its standard output is nothing else.

    Args:
        names: that each record has, in their order.
        code: the command's exit status.
    """
    assert done.exit_code == code, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)
    jsonschema.validate(found, json.loads(SCHEMA.read_text("utf-8")))
    assert found and {" ".join(record) for record in found} == {names}
    return found
