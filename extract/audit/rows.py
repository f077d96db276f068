"""Sampled rows of a condition, and the same rows by the model's own forward pass in float32."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from warehouse.errors import TokenmartError
from warehouse.probes.request import Ids, Request
from warehouse.progress import Progress
from warehouse.store.token_files import STEP_NATS

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

MISSED = 0.05
"""Accepted probability that a sample has none of the wrong rows."""

ROWS_AT_ONCE = 128
"""Rows whose logits are kept: 128 MB with a vocabulary of 262,144; more take another forward."""


@dataclass(frozen=True)
class Forward:
    """An input of a model, shape (n,), where in it the rows' tokens are, and which rows these are.

    Places in the input, and in the sample, have shape (k,).
    """

    ids: Ids
    targets: Places
    rows: Places


@dataclass(frozen=True)
class Sample:
    """Sampled rows of a condition: log-prob, entropy and rank as stored, NaN for null; shape (k,).

    `contexts` are the tokens before each row, `dtype` is what the rows were computed in.
    """

    condition: str
    stored: Mapping[str, Floats]
    contexts: Places
    forwards: Sequence[Forward]
    dtype: str
    units_sha256: str


def share_found(sampled: int) -> float:
    """The least share of wrong rows of which a sample has one with a probability of 95%.

    With a share x, k independent rows miss all with (1 - x)^k; one row from each of k equal parts
    of the table misses them no more often (the logarithm is concave).
    """
    return float(1 - MISSED ** (1 / sampled)) if sampled else 1.0


def sampled_places(rows: int, count: int, seed: int, name: str) -> Places:
    """One random row from each of `count` equal parts of a table; every row is as likely.

    A table in the order of documents and positions has them as strata; `name` is the table's.
    """
    edges = np.linspace(0, rows, count + 1)
    drawn = np.random.default_rng([seed, crc32(name.encode())]).random(count)
    return np.minimum(edges[:-1] + drawn * np.diff(edges), rows - 1).astype(np.int64)


def sample_of(
    condition: str,
    table: pa.Table,
    requests: Mapping[tuple[int, int], Request],
    dtype: str,
    units_sha256: str = "",
) -> Sample:
    """Sampled rows of `tokens`, with the inputs that `requests`, by document and segment, make.

    Raises:
        TokenmartError: the condition has another token in a row's place (`other-tokens`).
    """
    grouped: dict[bytes, tuple[Ids, list[tuple[int, int]]]] = {}
    for place, row in enumerate(table.to_pylist()):
        request = requests[row["doc_id"], row["segment"]]
        at = int(np.flatnonzero(request.positions == row["position"])[0])
        if request.targets[at] != row["token_id"]:
            where = f"{condition}: document {row['doc_id']}: position {row['position']}"
            what = f"{where}: its text has another token there now"
            raise TokenmartError(what, code="other-tokens", where=where)
        ids = np.concatenate([request.prefix[: request.prefix_length], request.ids])
        target = request.prefix_length + request.first_target + at
        grouped.setdefault(ids.tobytes(), (ids, []))[1].append((target, place))
    forwards = [
        Forward(ids, *np.array(pairs[start : start + ROWS_AT_ONCE]).T)
        for ids, pairs in grouped.values()
        for start in range(0, len(pairs), ROWS_AT_ONCE)
    ]
    stored = {
        name: table[name].cast(pa.float64()).to_numpy(zero_copy_only=False)
        for name in ("logprob", "entropy", "rank")
    }
    contexts = table["context_tokens"].to_numpy()
    return Sample(condition, stored, contexts, forwards, dtype, units_sha256)


def logits_at(model: Any, ids: Ids, places: Places) -> Any:
    """Logits that a forward of `ids` has at places, shape (k, vocabulary), on the host, float32."""
    import torch

    # not every architecture can leave out logits
    can_keep = "logits_to_keep" in inspect.signature(model.forward).parameters
    wanted = torch.from_numpy(places).to(model.device)
    kept = {"logits_to_keep": wanted} if can_keep else {}
    with torch.inference_mode():
        read = torch.from_numpy(ids).long().to(model.device)[None]
        logits = model(input_ids=read, use_cache=False, **kept).logits[0]
    return (logits if can_keep else logits[wanted]).cpu().float()


def recomputed(model: Any, sample: Sample, progress: Progress) -> dict[str, Floats]:
    """Log-prob, entropy and rank of the rows, and the gap: nats to the token of the stored rank."""
    found = np.zeros((4, len(sample.contexts)))
    for each in sample.forwards:
        logits = logits_at(model, each.ids, each.targets - 1)
        for row, token, scores in zip(each.rows, each.ids[each.targets], logits, strict=True):
            logprobs = scores.double().log_softmax(-1)
            own, size = logprobs[int(token)], len(logprobs)
            rank, stored = 1 + int((logprobs > own).sum()), sample.stored["rank"][row]
            gap = 0.0
            if stored != rank and not np.isnan(stored):
                gap = float(logprobs.kthvalue(max(1, size + 1 - int(stored))).values - own)
            entropy = -float((logprobs.exp() * logprobs.clamp(min=-1e4)).sum())
            found[:, row] = float(own), entropy, rank, abs(gap)
        progress(sample.condition, len(each.ids))
    return dict(zip(("logprob", "entropy", "rank", "gap"), found, strict=True))


def tolerance(model: Any, text: Ids) -> tuple[float, float]:
    """What roundings of the model's dtype explain in its log-probs of a text, and of the store.

    Root mean square and largest difference in nats: the rule of the engine's check.
    """
    import torch

    from extract.scoring.head import LogitTransform
    from extract.scoring.self_check import TEXT_TOKENS, explained, own_forward

    read = torch.from_numpy(text[:TEXT_TOKENS]).long().to(model.device)
    own = own_forward(model, read, LogitTransform.of(model.config.get_text_config()))
    rms, worst = explained(own, len(own.logprob))
    return rms + STEP_NATS["logprob"] / 2, worst + STEP_NATS["logprob"] / 2


def differing(sample: Sample, own: Mapping[str, Floats], rms: float, worst: float) -> Any:
    """Whether each row differs by more than rounding explains, shape (k,); nulls don't.

    Changes of log-probs by at most t change an entropy H by t · H in first order, and the gap
    between two tokens by 2 t.
    """
    off, entropy_off = (np.abs(sample.stored[n] - own[n]) for n in ("logprob", "entropy"))
    # small differences of all rows, which no draw of roundings has
    is_other = off > (rms if np.sqrt(np.square(off).mean()) > rms else worst)
    is_other |= entropy_off > worst * (1 + own["entropy"]) + STEP_NATS["entropy"] / 2
    return is_other | (own["gap"] > 2 * worst)
