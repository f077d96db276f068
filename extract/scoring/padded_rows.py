"""Texts that run side by side in one padded forward, and which of their states are scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warehouse.probes.request import Ids, Request


@dataclass(frozen=True)
class Row:
    """A text and the requests that its states answer.

    Attributes:
        ids: shape (n,).
        requests: their indices.
        first: index of the state that predicts the first target of each of them.
    """

    ids: Ids
    requests: tuple[int, ...]
    first: int


def whole_row(requests: Sequence[Request], index: int) -> Row:
    """A request's prefix and ids as one text."""
    request = requests[index]
    ids = np.concatenate([request.prefix[: request.prefix_length], request.ids])
    return Row(ids, (index,), len(ids) - len(request.targets) - 1)


def next_token_row(requests: Sequence[Request], group: Sequence[int]) -> Row | None:
    """The prefix of requests that ask for one token behind it; None if one asks for anything else.

    The prefix's last state predicts that token, so the token itself need not run: choices by a
    letter cost no more than their prompt.

    Args:
        requests: all of them.
        group: indices of those that share a prefix.
    """
    prefix = requests[group[0]].prefix
    for i in group:
        request = requests[i]
        if request.prefix_length < len(prefix) or len(request.ids) > 1 or request.first_target:
            return None
    return Row(prefix, tuple(group), len(prefix) - 1)


def padded(texts: Sequence[Ids]) -> Ids:
    """Texts side by side, shape (texts, longest), with zeros on the right."""
    ids = np.zeros((len(texts), max(map(len, texts))), dtype=np.int32)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = text
    return ids
