"""Import log-probabilities of tokens: one request per JSON line or Parquet row.

Fields: `task`, `item`, `choice`, `context`, `continuation`, `is_gold`, `backend` and the other
fields of `EvalAnswer`; and lists of equal length: `token_ids`, `logprobs` (nats), `ranks` (1 =
top-1 token) and, if known, `top_logprobs` and `entropies`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from plugins.benchmarks.harness.eval_answer import ROUNDING
from plugins.benchmarks.harness.imports.imported_answers import EvalImporter
from warehouse.errors import TokenmartError
from warehouse.importers.importer import Row
from warehouse.text_file import parse_json, text_lines

LISTS = {
    "token_ids": "token_id",
    "logprobs": "logprob",
    "ranks": "rank",
    "top_logprobs": "top_logprob",
    "entropies": "entropy",
}
"""Field with a list → its statistic of each token."""
_NEEDED = ("token_ids", "logprobs", "ranks")


class TokenLogprobs(EvalImporter):
    """JSON lines or Parquet with lists of tokens."""

    kind = "token-logprobs"

    def read(self, path: Path) -> Iterator[Row]:
        """Requests, counted from 1.

        Raises:
            TokenmartError: the file can't be read, or lists are missing or differ in length.
        """
        for place, content in json_lines(path):
            yield Row(place, with_tokens(place, content))


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects of a JSON lines file or rows of a Parquet file, with file and line.

    Raises:
        TokenmartError: the file can't be read, or a line is not a JSON object.
    """
    if path.suffix == ".parquet":
        try:
            rows = pq.read_table(path, partitioning=None).to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise _refused(str(path), f"can't be read ({error})", "unreadable") from error
        for number, row in enumerate(rows, start=1):
            yield f"{path}: row {number}", row
        return
    for place, line in text_lines(path):
        content = parse_json(line, place)
        if not isinstance(content, dict):
            raise _refused(place, "not an object; write one request a line", "no-object")
        yield place, content


def _refused(place: str, what: str, code: str) -> TokenmartError:
    return TokenmartError(f"{place}: {what}", code=code, where=place)


def with_tokens(place: str, content: dict[str, Any]) -> dict[str, Any]:
    """A request with its lists converted to tokens.

    Raises:
        TokenmartError: a list is missing, or they differ in length.
    """
    lists = {name: content[name] for name in LISTS if content.get(name) is not None}
    if missing := [name for name in _NEEDED if name not in lists]:
        raise _refused(place, f"{', '.join(missing)} missing", "missing-field")
    lengths = {name: len(each) if isinstance(each, list) else -1 for name, each in lists.items()}
    if len(set(lengths.values())) > 1 or lengths["token_ids"] < 1:
        raise _refused(place, f"lists of lengths {lengths}, expected one of at least 1", "lengths")
    tokens = [
        dict(zip((LISTS[name] for name in lists), values, strict=True))
        for values in zip(*lists.values(), strict=True)
    ]
    for number, token in enumerate(tokens):
        check_token(f"{place}: token {number} (from 0)", token)
    rest = {name: value for name, value in content.items() if name not in LISTS}
    return {**rest, "tokens": tokens}


def check_token(place: str, token: dict[str, Any]) -> None:
    """Refuse log-probabilities that contradict themselves; set what rounding put above 0 to 0.

    Raises:
        TokenmartError: one is -inf or far above 0, or the token's own, its rank and the top one
            contradict each other.
    """
    own, top, rank = (token.get(name) for name in ("logprob", "top_logprob", "rank"))
    if not isinstance(own, int | float):
        return  # reported with the other fields, as is one above 0
    if own == float("-inf"):
        raise _refused(
            place,
            "its log-probability is -inf: the program left tokens out, or its logits overflowed; "
            "score it again without filters of tokens",
            "minus-infinity",
        )
    if 0 < own <= ROUNDING:
        token["logprob"] = 0.0
    if isinstance(top, int | float) and top == top:
        if top > ROUNDING or top < own - ROUNDING or (rank == 1 and top > own + ROUNDING):
            raise _refused(
                place,
                f"its log-probability is {own:g}, its rank {rank} and the top one {top:g}",
                "contradiction",
            )
        token["top_logprob"] = min(top, 0.0)
