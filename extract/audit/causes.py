"""Why rows differ: rules in order, on arrays of log-probs; the first that fits names the cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from extract.audit.rows import Floats, Forward, Places, Sample, forwards_of, logits_at
from extract.tokenization import DocumentTokenizer
from warehouse.probes.request import Ids

FORWARDS, ROWS = 4, 8
"""Inputs with differing rows that are looked at, and rows of each."""

FITS = 0.9
"""Share of rows that a cause explains within the tolerance."""

LOWEST, HIGHEST, ZOOMS = 0.1, 10.0, 14
"""Temperatures that are tried, and how often their grid narrows."""

ROUNDED = 0.5
"""Share of rows that another dtype moves by more than the tolerance; of certain tokens, none."""

GROWTH = 3.0
"""Ratio of differences behind one token and behind long contexts (the last third)."""


def mistake_of(
    model: Any,
    forwards: Sequence[Forward],
    logprobs: Floats,
    is_other: NDArray[np.bool_],
    worst: float,
    tokenizer: DocumentTokenizer,
) -> str:
    """The mistake of another program that gives the rows which differ; empty for none.

    Args:
        model: in float32.
        logprobs: as stored, shape (k,).
        is_other: which of them to explain, shape (k,).
        worst: tolerance of a row, in nats.
    """
    left = [(each, is_other[each.rows]) for each in forwards]
    left = sorted(left, key=lambda pair: -pair[1].sum())[:FORWARDS]
    chosen = [Forward(f.ids, f.targets[other][:ROWS], f.rows[other][:ROWS]) for f, other in left]
    chosen = [each for each in chosen if len(each.rows)]
    stored = logprobs[np.concatenate([each.rows for each in chosen])]

    def fits(supposed: Floats) -> bool:
        return bool((np.abs(stored - supposed) <= worst).mean() >= FITS)

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
    wanted = torch.from_numpy(np.concatenate([each.ids[each.targets] for each in chosen])).long()
    temperature = _nearest_temperature(logits, wanted, stored)
    return f"temperature {temperature:.3g}" if fits(_of(logits / temperature, wanted)) else ""


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


def _nearest_temperature(logits: Any, tokens: Any, stored: Floats) -> float:
    """The T whose log-softmax(logits / T) is nearest, by a grid that narrows around the best."""
    low, high = np.log([LOWEST, HIGHEST])
    for _ in range(ZOOMS):
        grid = np.linspace(low, high, 9)
        off = [np.abs(stored - _of(logits / float(t), tokens)).mean() for t in np.exp(grid)]
        best, step = grid[int(np.argmin(off))], grid[1] - grid[0]
        low, high = best - step, best + step
    return float(np.exp(best))


def behind_one_token(model: Any, sample: Sample) -> Floats:
    """Differences of log-probs behind a single token, for which RoPE and window don't matter."""
    stored, off = sample.shortest["logprob"].to_numpy(), [np.zeros(0)]
    for each in forwards_of([replace(sample, rows=sample.shortest)], merged=False):
        first = each.targets[each.targets == 1]
        own = _logprobs(model, each.ids, first, first)
        off.append(np.abs(stored[each.rows[each.targets == 1]] - own))
    return np.concatenate(off)


def pattern_of(
    off: Floats,
    contexts: Places,
    shortest: Floats,
    worst: float,
    noise: Mapping[str, tuple[float, float]],
) -> str:
    """The cause that differences of log-probs look like, else `unknown`.

    Args:
        off: shape (k,), of the sample; `contexts` of its rows.
        shortest: from `behind_one_token`, of shape (0,) where no row has such a context.
        worst: tolerance of a row, in nats.
        noise: number format → tolerances of one that is rounded to it.
    """
    for name, (rms, most) in noise.items():
        is_noise = np.sqrt(np.square(off).mean()) <= rms and off.max() <= most
        if is_noise and (off > worst).mean() >= ROUNDED:
            return f"another dtype ({name})"
    longest = off[np.argsort(contexts, kind="stable")][-max(1, len(off) // 3) :]
    if not len(shortest) or (longest > worst).mean() < FITS:
        return "unknown"
    if (shortest <= worst).all():
        return "another RoPE or window"
    return "another BOS" if shortest.mean() > GROWTH * longest.mean() else "another checkpoint"
