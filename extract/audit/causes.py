"""Why rows differ: rules in order, on arrays of log-probs; the first that fits names the cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from extract.audit.rows import Floats, Forward, Places, Sample, logits_at
from extract.tokenization import DocumentTokenizer
from warehouse.probes.request import Ids

FORWARDS, ROWS = 4, 8
"""Inputs with differing rows that are looked at, and rows of each."""

FITS = 0.9
"""Share of rows that a cause explains within the tolerance."""

LOWEST, HIGHEST, ZOOMS = 0.1, 10.0, 14
"""Temperatures that are tried, and how often their grid narrows."""

SHORTEST, FEWEST = 0.05, 5
"""Share of the sample with the shortest contexts, and its rows at least."""

GROWTH = 3.0
"""Ratio of differences behind long contexts (the last third) and behind the shortest."""


def name_cause(
    model: Any,
    sample: Sample,
    own: Mapping[str, Floats],
    is_other: Any,
    worst: float,
    noise: Mapping[str, tuple[float, float]],
    tokenizer: DocumentTokenizer,
) -> str:
    """The first cause that fits, else `unknown`.

    Args:
        model: in float32.
        own: from `recomputed`.
        is_other: shape (k,), from `differing`.
        worst: tolerance of a row, in nats.
        noise: number format → tolerances of one that is rounded to it.
    """
    left = [(each, is_other[each.rows]) for each in sample.forwards]
    left = sorted(left, key=lambda pair: -pair[1].sum())[:FORWARDS]
    chosen = [Forward(f.ids, f.targets[other][:ROWS], f.rows[other][:ROWS]) for f, other in left]
    stored = sample.stored["logprob"][np.concatenate([each.rows for each in chosen])]

    def fits(hypothesis: Floats) -> bool:
        return bool((np.abs(stored - hypothesis) <= worst).mean() >= FITS)

    if (stored == 0).mean() >= FITS:
        return "stale prefix (log-probs of 0)"
    mistakes: dict[str, list[Floats]] = {}
    for each in chosen:
        for name, ids, places, tokens in _mistakes(each, tokenizer):
            mistakes.setdefault(name, []).append(_logprobs(model, ids, places, tokens))
    for name, parts in mistakes.items():
        if sum(map(len, parts)) == len(stored) and fits(np.concatenate(parts)):
            return name
    logits = torch.cat([logits_at(model, each.ids, each.targets - 1) for each in chosen])
    own_ids = np.concatenate([each.ids[each.targets] for each in chosen])
    temperature, heated = _nearest_temperature(logits, torch.from_numpy(own_ids).long(), stored)
    if fits(heated):
        return f"temperature {temperature:.3g}"
    off = np.abs(sample.stored["logprob"] - own["logprob"])
    everything = "another checkpoint" if is_other.mean() >= FITS else "unknown"
    return _rounding(off, noise) or _by_context(off, sample.contexts) or everything


def _mistakes(
    forward: Forward, tokenizer: DocumentTokenizer
) -> Iterator[tuple[str, Ids, Places, Places]]:
    """Other inputs that give a forward's rows by mistake: cause, ids, places, and of the tokens."""
    ids, targets = forward.ids, forward.targets
    yield "offset by one: the row before", ids, targets - 1, targets - 1
    yield "offset by one: the row behind", ids, targets + 1, targets + 1
    yield "offset by one: logits", ids, targets - 1, targets
    start = int(tokenizer.bos is not None and ids[0] == tokenizer.bos)
    yield "offset by one: context", np.delete(ids, start), targets - 1, targets - 1
    if start:
        yield "another BOS (none)", ids[1:], targets - 1, targets - 1
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    for token in {getattr(tokenizer.library, name) for name in names} - {None, int(ids[0])}:
        other = np.concatenate([np.array([token], ids.dtype), ids[start:]])
        yield f"another BOS ({token})", other, targets + 1 - start, targets + 1 - start


def _logprobs(model: Any, ids: Ids, places: Places, tokens: Places) -> Floats:
    """Log-probs before `places` of the ids at `tokens`; NaN outside the input."""
    inside = (places >= 1) & (places < len(ids))
    found: Floats = np.full(len(places), np.nan)
    wanted = torch.from_numpy(ids[tokens[inside]]).long()
    if inside.any():
        found[inside] = _of(logits_at(model, ids, places[inside] - 1), wanted)
    return found


def _of(logits: Any, tokens: Any) -> Floats:
    picked: Floats = logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0].double().numpy()
    return picked


def _nearest_temperature(logits: Any, tokens: Any, stored: Floats) -> tuple[float, Floats]:
    """The T whose log-softmax(logits / T) is nearest, by a grid that narrows around the best."""
    low, high = np.log([LOWEST, HIGHEST])
    for _ in range(ZOOMS):
        grid = np.linspace(low, high, 9)
        heated = [_of(logits / float(t), tokens) for t in np.exp(grid)]
        best = int(np.argmin([np.abs(stored - each).mean() for each in heated]))
        low, high = grid[best] - (grid[1] - grid[0]), grid[best] + (grid[1] - grid[0])
    return float(np.exp(grid[best])), heated[best]


def _rounding(off: Floats, noise: Mapping[str, tuple[float, float]]) -> str:
    for name, (rms, worst) in noise.items():
        if np.sqrt(np.square(off).mean()) <= rms and off.max() <= worst:
            return f"another dtype ({name})"
    return ""


def _by_context(off: Floats, contexts: Places) -> str:
    """Positions or the window differ where short contexts agree better, a beginning where worse.

    With one token of context, every RoPE and window gives the same.
    """
    ordered = off[np.argsort(contexts, kind="stable")]
    first = ordered[: max(FEWEST, int(SHORTEST * len(off)))].mean()
    last = ordered[-max(1, len(off) // 3) :].mean()
    if last > GROWTH * first:
        return "another RoPE or window"
    return "another BOS" if first > GROWTH * last else ""
