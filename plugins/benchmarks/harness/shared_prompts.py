"""Find the prefix that the requests of a unit share: the prompt of a choice, or few-shot examples.

The model processes a shared prefix only once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from plugins.benchmarks.harness.encoding import Pair
from warehouse.probes.request import Ids, Request

LEAST_SAVING = 0.3
"""Minimum share of the tokens that a common prefix of all prompts must save: a token after a cached
prefix takes longer than a token of a plain text."""


def requests_of(pairs: Sequence[tuple[int, Pair]]) -> list[Request]:
    """Requests of the engine for segments and their pairs, in their order.

    Prompts of one unit often begin with the same few-shot examples. If this saves enough tokens,
    the examples are the prefix of all requests; otherwise each prompt is the prefix of its choices.
    """
    contexts = {pair.context.tobytes(): pair.context for _, pair in pairs}
    common = common_tokens(list(contexts.values()))
    stems = {(p.context.tobytes(), p.continuation[:-1].tobytes()): p for _, p in pairs}.values()
    behind_prompts = sum(map(len, contexts.values())) + sum(len(p.continuation) - 1 for p in stems)
    behind_common = common + sum(len(p.context) - common + len(p.continuation) - 1 for p in stems)
    if behind_common <= (1 - LEAST_SAVING) * behind_prompts:
        return [pair.request(segment, common) for segment, pair in pairs]
    times = Counter(pair.context.tobytes() for _, pair in pairs)
    # texts after BOS alone have no common prefix
    alone = {text for text, context in contexts.items() if times[text] == 1 or len(context) == 1}
    return [
        pair.request(segment, 0 if pair.context.tobytes() in alone else len(pair.context))
        for segment, pair in pairs
    ]


def common_tokens(contexts: Sequence[Ids]) -> int:
    """Number of tokens at the beginning that all contexts share."""
    if not contexts:
        return 0
    length = min(map(len, contexts))
    together = np.stack([context[:length] for context in contexts])
    differs = (together != together[0]).any(axis=0)
    return int(differs.argmax()) if differs.any() else length
