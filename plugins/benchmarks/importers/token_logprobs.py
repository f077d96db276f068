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
    try:
        if path.suffix == ".parquet":
            rows = pq.read_table(path, partitioning=None).to_pylist()
            for number, row in enumerate(rows, start=1):
                yield f"{path}: row {number}", row
            return
    except (OSError, pa.ArrowException) as error:
        raise TokenmartError(f"{path}: can't be read ({error}); copy the file again") from error
    for place, line in text_lines(path):
        content = parse_json(line, place)
        if not isinstance(content, dict):
            raise TokenmartError(f"{place}: not an object; write one request a line")
        yield place, content


def with_tokens(place: str, content: dict[str, Any]) -> dict[str, Any]:
    """A request with its lists converted to tokens.

    Raises:
        TokenmartError: a list is missing, or they differ in length.
    """
    lists = {name: content[name] for name in LISTS if content.get(name) is not None}
    for name in _NEEDED:
        if name not in lists:
            raise TokenmartError(f"{place}: field {name!r} is missing; add it")
    lengths = {name: len(each) if isinstance(each, list) else -1 for name, each in lists.items()}
    if len(set(lengths.values())) > 1 or not lengths["token_ids"] > 0:
        said = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise TokenmartError(f"{place}: lists must have one length, at least 1 (found {said})")
    tokens = [
        dict(zip((LISTS[name] for name in lists), values, strict=True))
        for values in zip(*lists.values(), strict=True)
    ]
    for number, token in enumerate(tokens):
        _check(f"{place}: token {number} (from 0)", token)
    rest = {name: value for name, value in content.items() if name not in LISTS}
    return {**rest, "tokens": tokens}


def _check(place: str, token: dict[str, Any]) -> None:
    """Refuse log-probabilities that contradict themselves; set what rounding put above 0 to 0."""
    own, top, rank = (token.get(name) for name in ("logprob", "top_logprob", "rank"))
    if not isinstance(own, int | float):
        return  # reported with the other fields, as is one above 0
    if own == float("-inf"):
        raise TokenmartError(
            f"{place}: its log-probability is -inf: the program left tokens out, or its logits "
            "overflowed; score the request again without filters of tokens, or leave it out"
        )
    if 0 < own <= ROUNDING:
        token["logprob"] = 0.0
    if isinstance(top, int | float) and top == top:
        if top < own - ROUNDING or (rank == 1 and top > own + ROUNDING):
            raise TokenmartError(
                f"{place}: its log-probability is {own:g}, its rank {rank} and the top one "
                f"{top:g}, which contradict each other; correct them"
            )
        token["top_logprob"] = min(top, 0.0)
