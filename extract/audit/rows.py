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

ROWS_AT_ONCE = 256
"""Rows whose logits are kept: 268 MB with a vocabulary of 262,144; more take another forward."""

SHORTEST = 8
"""Rows with the shortest contexts, which tell why others differ."""

COLUMNS = ("logprob", "entropy", "rank")


@dataclass(frozen=True)
class Sample:
    """Sampled rows of `tokens` of a condition.

    `shortest` are the condition's rows with the shortest contexts, which are no part of the sample.
    `requests` have the rows' inputs by document and segment, `dtype` is what the rows were
    computed in.
    """

    condition: str
    rows: pa.Table
    shortest: pa.Table
    requests: Mapping[tuple[int, int], Request]
    dtype: str
    units_sha256: str = ""


@dataclass(frozen=True)
class Forward:
    """An input of a model, shape (n,); where in it tokens are, and their rows: shape (k,)."""

    ids: Ids
    targets: Places
    rows: Places


def share_found(sampled: int) -> float:
    """The least share of wrong rows of which a sample has one with a probability of 95%.

    With a share x, k independent rows miss all with (1 - x)^k; one row from each of k equal parts
    of the table misses them no more often (the logarithm is concave).
    """
    return float(1 - MISSED ** (1 / sampled))


def sampled_places(rows: int, count: int, seed: int, name: str) -> Places:
    """One random row from each of `count` equal parts of a table; every row is as likely.

    A table in the order of documents and positions has them as strata; `name` is the table's.
    """
    edges = np.linspace(0, rows, count + 1)
    drawn = np.random.default_rng([seed, crc32(name.encode())]).random(count)
    return np.minimum(edges[:-1] + drawn * np.diff(edges), rows - 1).astype(np.int64)


def forwards_of(samples: Sequence[Sample], merged: bool) -> list[Forward]:
    """The inputs of rows, which are numbered through all samples.

    Args:
        merged: whether a text's log-probs may be those of a longer one that begins with it.

    Raises:
        TokenmartError: a condition has another token in a row's place (`other-tokens`).
    """
    inputs: dict[bytes, list[tuple[int, int]]] = {}
    every = ((sample, row) for sample in samples for row in sample.rows.to_pylist())
    for number, (sample, row) in enumerate(every):
        request = sample.requests[row["doc_id"], row["segment"]]
        at = int(np.flatnonzero(request.positions == row["position"])[0])
        if request.targets[at] != row["token_id"]:
            where = f"{sample.condition}: document {row['doc_id']}: position {row['position']}"
            what = f"{where}: its text has another token there now"
            raise TokenmartError(what, code="other-tokens", where=where)
        ids = request.prefix[: request.prefix_length].tobytes() + request.ids.tobytes()
        target = request.prefix_length + request.first_target + at
        inputs.setdefault(ids, []).append((target, number))
    longest: list[tuple[bytes, list[tuple[int, int]]]] = []
    # in reverse order a text comes after those that begin with it
    for ids, pairs in sorted(inputs.items(), reverse=True):
        if merged and longest and longest[-1][0].startswith(ids):
            longest[-1][1].extend(pairs)
        else:
            longest.append((ids, pairs))
    return [
        Forward(
            np.frombuffer(ids, np.int32).copy(), *np.array(pairs[start : start + ROWS_AT_ONCE]).T
        )
        for ids, pairs in longest
        for start in range(0, len(pairs), ROWS_AT_ONCE)
    ]


def stored_columns(samples: Sequence[Sample]) -> dict[str, Floats]:
    """Log-prob, entropy and rank of all samples' rows as stored, NaN for null; shape (k,) each."""
    table = pa.concat_tables([each.rows.select(COLUMNS) for each in samples])
    return {name: table[name].cast(pa.float64()).to_numpy(zero_copy_only=False) for name in COLUMNS}


def logits_at(model: Any, ids: Ids, places: Places) -> Any:
    """Logits that a forward of `ids` has at places, shape (k, vocabulary), on the host, float32.

    Tokens behind the last place are left out where they can't change what is before them.
    """
    import torch

    from extract.scoring.architectures import backbone, depends_on_length
    from extract.scoring.layers import has_length_dependent_rope, reset_frequencies

    config = model.config.get_text_config()
    if has_length_dependent_rope(config):
        reset_frequencies(backbone(model), model.device, model.dtype)
    read = ids if depends_on_length(config) else ids[: places.max() + 1]
    wanted = torch.from_numpy(places).to(model.device)
    # not every architecture can leave out logits
    can_keep = "logits_to_keep" in inspect.signature(model.forward).parameters
    kept = {"logits_to_keep": wanted} if can_keep else {}
    with torch.inference_mode():
        batch = torch.tensor(read[None], dtype=torch.long, device=model.device)
        logits = model(input_ids=batch, use_cache=False, **kept).logits[0]
    return (logits if can_keep else logits[wanted]).cpu().float()


def recomputed(
    model: Any, forwards: Sequence[Forward], worst: Floats, progress: Progress
) -> dict[str, Floats]:
    """Log-prob, entropy and rank of the rows, shape (k,).

    Also `lowest` and `highest`, the ranks that log-probs have which are off by up to `worst` nats,
    shape (k,).
    """
    found = np.zeros((5, len(worst)))
    for each in forwards:
        logits = logits_at(model, each.ids, each.targets - 1)
        for row, token, scores in zip(each.rows, each.ids[each.targets], logits, strict=True):
            logprobs = scores.double().log_softmax(-1)
            own = logprobs[int(token)]
            entropy = -(logprobs.exp() * logprobs.clamp(min=-1e4)).sum()
            steps = (0, 2 * worst[row], -2 * worst[row])
            above, lowest, highest = (float((logprobs > own + step).sum()) for step in steps)
            # the token itself is among the highest
            found[:, row] = float(own), float(entropy), 1 + above, 1 + lowest, highest
        progress("recomputing rows", len(each.ids))
    return dict(zip((*COLUMNS, "lowest", "highest"), found, strict=True))


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


def differing(
    stored: Mapping[str, Floats], own: Mapping[str, Floats], rms: float, worst: float
) -> NDArray[np.bool_]:
    """Whether each row differs by more than rounding explains, shape (k,); nulls don't.

    Changes of log-probs by at most t change an entropy H by t · H in first order.
    """
    off, entropy_off = (np.abs(stored[name] - own[name]) for name in ("logprob", "entropy"))
    # small differences of all rows, which no draw of roundings has
    is_other = off > (rms if np.sqrt(np.square(off).mean()) > rms else worst)
    is_other |= entropy_off > worst * (1 + own["entropy"]) + STEP_NATS["entropy"] / 2
    is_other |= (stored["rank"] < own["lowest"]) | (stored["rank"] > own["highest"])
    return np.asarray(is_other)
