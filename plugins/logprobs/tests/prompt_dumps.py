"""Dumps of prompt log-probs as servers write them, made with transformers' plain forward."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Entry = dict[str, Any]
Tops = list[tuple[int, float]]


class PlainScores:
    """What a model's own forward makes of one prompt.

    ids: shape (n,); logprobs: shape (n - 1, vocabulary), of the tokens after the first.
    """

    def __init__(self, model: Any, ids: Sequence[int]) -> None:
        import torch

        self.ids = list(ids)
        with torch.inference_mode():
            logits = model(torch.tensor([self.ids])).logits[0, :-1].float()
        self.logprobs: NDArray[np.float32] = torch.log_softmax(logits, -1).numpy()

    def own(self, step: int) -> float:
        """Log-prob of a token of the prompt; step 1 is the second."""
        return float(self.logprobs[step - 1, self.ids[step]])

    def rank(self, step: int) -> int:
        """1 + the number of tokens with a higher log-prob."""
        return 1 + int((self.logprobs[step - 1] > self.logprobs[step - 1, self.ids[step]]).sum())

    def top(self, step: int, k: int) -> Tops:
        """The k most likely tokens."""
        order = np.argsort(-self.logprobs[step - 1], kind="stable")[:k]
        return [(int(token), float(self.logprobs[step - 1, token])) for token in order]

    def entropy(self, step: int) -> float:
        """Of the predictive distribution, in nats."""
        row = self.logprobs[step - 1].astype(np.float64)
        return float(-(np.exp(row) * row).sum())


def vllm(scores: PlainScores, k: int = 0) -> Entry:
    """The fields of a RequestOutput that people dump."""
    positions: list[Entry | None] = [None]
    for step in range(1, len(scores.ids)):
        entry = {str(scores.ids[step]): _logprob(scores.own(step), scores.rank(step))}
        for rank, (token, logprob) in enumerate(scores.top(step, k), start=1):
            entry.setdefault(str(token), _logprob(logprob, rank))
        positions.append(entry)
    return {"prompt_token_ids": scores.ids, "prompt_logprobs": positions}


def _logprob(value: float, rank: int) -> Entry:
    return {"logprob": value, "rank": rank, "decoded_token": "x"}


def vllm_server(scores: PlainScores) -> Entry:
    """A line of a completions response, without the prompt's ids."""
    found = vllm(scores)["prompt_logprobs"]
    return {"id": "cmpl-1", "choices": [{"index": 0, "text": "", "prompt_logprobs": found}]}


def sglang(scores: PlainScores, k: int = 0) -> Entry:
    """The answer of /generate with `return_logprob` and `logprob_start_len: 0`."""
    steps = range(1, len(scores.ids))
    own = [[None, scores.ids[0], None], *([scores.own(n), scores.ids[n], None] for n in steps)]
    meta: Entry = {"id": "a", "prompt_tokens": len(scores.ids), "input_token_logprobs": own}
    if k:
        tops = [[[logprob, token, None] for token, logprob in scores.top(n, k)] for n in steps]
        meta["input_top_logprobs"] = [None, *tops]
    return {"text": "", "meta_info": meta}


def rows(scores: PlainScores, doc_id: int, bos: bool) -> list[Entry]:
    """Rows of a plain table; without a BOS the first has no log-prob."""
    found = [] if bos else [{"doc_id": doc_id, "position": 0, "token_id": scores.ids[0]}]
    return found + [
        {
            "doc_id": doc_id,
            "position": step - bos,
            "token_id": scores.ids[step],
            "logprob": scores.own(step),
            "rank": scores.rank(step),
            "top_logprob": scores.top(step, 1)[0][1],
            "entropy": scores.entropy(step),
        }
        for step in range(1, len(scores.ids))
    ]


def write_lines(path: Path, entries: Sequence[Entry]) -> Path:
    """JSON lines."""
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    return path


Form = Callable[[list[PlainScores], bool, Path], Path]


def _lines(make: Callable[[PlainScores], Entry]) -> Form:
    def write(scored: list[PlainScores], bos: bool, folder: Path) -> Path:
        return write_lines(folder / "dump.jsonl", [make(each) for each in scored])

    return write


def _all_rows(scored: list[PlainScores], bos: bool) -> list[Entry]:
    return [row for number, each in enumerate(scored) for row in rows(each, number, bos)]


def _parquet(scored: list[PlainScores], bos: bool, folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist(_all_rows(scored, bos)[::-1])  # in any order
    pq.write_table(table, folder / "dump.parquet")
    return folder / "dump.parquet"


ALL = ["rank", "top_logprob", "entropy"]
FORMS: dict[str, tuple[Form, list[str]]] = {
    "vllm": (_lines(vllm), ["top_logprob", "entropy"]),
    "vllm top 3": (_lines(lambda scores: vllm(scores, 3)), ["entropy"]),
    "vllm server": (_lines(vllm_server), ["top_logprob", "entropy"]),
    "sglang": (_lines(sglang), ALL),
    "sglang top 3": (_lines(lambda scores: sglang(scores, 3)), ["rank", "entropy"]),
    "table": (
        lambda scored, bos, folder: write_lines(folder / "dump.jsonl", _all_rows(scored, bos)),
        [],
    ),
    "table in parquet": (_parquet, []),
}
"""Name → function that writes a dump, and the columns that it lacks."""
