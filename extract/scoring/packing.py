"""Requests in forward passes: texts side by side, and suffixes packed behind their prefixes.

A group is a prefix with its suffixes. The suffixes of a long prefix run behind its KV cache; of
short groups (prompts with their choices) several run in one forward, prefixes and all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warehouse.probes.request import Ids, Request

PACKED_TOKENS = 4096
"""Tokens of one forward at most: its mask has the square of that."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class PackedRow:
    """A text of a padded batch, and the requests that its states answer.

    Attributes:
        ids: shape (n,).
        requests: their indices.
        first: index of the state that predicts the first target of each of them.
    """

    ids: Ids
    requests: tuple[int, ...]
    first: int


def whole_row(requests: Sequence[Request], index: int) -> PackedRow:
    """A request's prefix and ids as one text."""
    request = requests[index]
    ids = np.concatenate([request.prefix[: request.prefix_length], request.ids])
    return PackedRow(ids, (index,), len(ids) - len(request.targets) - 1)


def next_token_row(requests: Sequence[Request], group: Sequence[int]) -> PackedRow | None:
    """The prefix of requests that ask for one token behind it; None if one asks for anything else.

    The prefix's last state predicts that token, so the token itself need not run: choices by a
    letter cost no more than their prompt.
    """
    prefix = requests[group[0]].prefix
    for i in group:
        request = requests[i]
        if request.prefix_length < len(prefix) or len(request.ids) > 1 or request.first_target:
            return None
    return PackedRow(prefix, tuple(group), len(prefix) - 1)


def padded(texts: Sequence[Ids]) -> Ids:
    """Texts side by side, shape (texts, longest), with zeros on the right."""
    ids = np.zeros((len(texts), max(map(len, texts))), dtype=np.int32)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = text
    return ids


@dataclass(frozen=True)
class Piece:
    """A prefix or a suffix among packed tokens.

    Attributes:
        ids: shape (n,); of a suffix without the last token of its requests, where these differ
            only in it.
        group: number of its group in the pack.
        visible: how much of the prefix a suffix sees.
        requests: indices of those that a suffix answers; none for a prefix.
    """

    ids: Ids
    group: int
    visible: int
    requests: tuple[int, ...]


def suffixes_of(requests: Sequence[Request], group: Sequence[int]) -> list[Piece]:
    """The suffixes of one prefix; requests that differ only in their last token share one."""
    stems: dict[tuple[int, bytes], list[int]] = {}
    for i in group:
        stem = requests[i].prefix_length, requests[i].ids[:-1].tobytes()
        stems.setdefault(stem, []).append(i)
    pieces = []
    for (visible, _), members in stems.items():
        ids = requests[members[0]].ids
        if len(members) > 1 and len(ids) > 1:
            pieces.append(Piece(ids[:-1], 0, visible, tuple(members)))
        else:
            pieces += [Piece(requests[i].ids, 0, visible, (i,)) for i in members]
    return pieces


def pack_suffixes(suffixes: Sequence[Piece], budget: int) -> list[list[Piece]]:
    """The suffixes of one long prefix in packs of at most `budget` tokens, or of one suffix."""
    return _packs(suffixes, [len(suffix.ids) for suffix in suffixes], budget)


def pack_short_groups(
    requests: Sequence[Request], groups: Sequence[list[int]], budget: int
) -> list[list[Piece]]:
    """Packs of groups that fit into one forward of `budget` tokens; a group alone is in none.

    Args:
        requests: all of them.
        groups: indices of the requests that share a prefix.
        budget: tokens of a pack at most.

    Returns:
        The pieces of each pack: prefixes, each with its suffixes behind it.
    """

    def size(group: list[int]) -> int:
        return len(requests[group[0]].prefix) + sum(len(requests[i].ids) for i in group)

    short = sorted((group for group in groups if size(group) <= budget), key=size)
    packs = []
    for together in _packs(short, [size(group) for group in short], budget):
        pieces: list[Piece] = []
        for number, group in enumerate(together):
            pieces.append(Piece(requests[group[0]].prefix, number, 0, ()))
            pieces += [
                Piece(requests[i].ids, number, requests[i].prefix_length, (i,)) for i in group
            ]
        if len(together) > 1:
            packs.append(pieces)
    return packs


def _packs(items: Sequence[Item], sizes: Sequence[int], budget: int) -> list[list[Item]]:
    packs: list[list[Item]] = [[]]
    left = budget
    for item, size in zip(items, sizes, strict=True):
        if packs[-1] and size > left:
            packs.append([])
            left = budget
        packs[-1].append(item)
        left -= size
    return packs


def columns_of(pieces: Sequence[Piece]) -> tuple[NDArray[np.int64], ...]:
    """Group, suffix (-1 in a prefix), position in its own text and visible prefix of each token."""
    lengths = [len(piece.ids) for piece in pieces]
    group = np.repeat([piece.group for piece in pieces], lengths)
    numbers = [number if piece.requests else -1 for number, piece in enumerate(pieces)]
    position = [np.arange(piece.visible, piece.visible + len(piece.ids)) for piece in pieces]
    visible = np.repeat([piece.visible for piece in pieces], lengths)
    return group, np.repeat(numbers, lengths), np.concatenate(position), visible


def visible_tokens(
    group: Tensor, suffix: Tensor, position: Tensor, visible: Tensor, cached: int
) -> tuple[Tensor, Tensor]:
    """What each of n packed tokens sees: its part of the prefix, and its suffix up to itself.

    Args:
        group, suffix, position, visible: shape (n,), from `columns_of`.
        cached: p tokens of a prefix that are in the KV cache and not among the n.

    Returns:
        A mask of shape (n, p + n), and the position of everything that may be seen, (p + n,).
    """
    same = (suffix[:, None] == suffix[None]) & (position[None] <= position[:, None])
    before = (suffix[None] < 0) & (position[None] < visible[:, None])
    mask = (group[:, None] == group[None]) & (same | before)
    if not cached:
        return mask, position
    prefix = torch.arange(cached, device=group.device)
    return torch.cat([prefix[None] < visible[:, None], mask], dim=1), torch.cat([prefix, position])


def attention_mask(
    mask: Tensor,
    positions: Tensor,
    keys: Tensor,
    config: Any,
    dtype: torch.dtype,
    window: int | None,
) -> Any:
    """The mask in the architecture's format, with its own sliding window applied.

    Args:
        mask: shape (n, keys), from `visible_tokens`.
        positions: shape (n,), of the tokens.
        keys: shape (keys,), positions of what they see.
        config: of the model's text part.
        dtype: of the additive mask that eager attention takes; SDPA takes a boolean one.
        window: of the layers with a sliding window; None where there are none.
    """

    def formed(visible: Tensor) -> Tensor:
        mask = visible[None, None]
        if getattr(config, "_attn_implementation", None) != "eager":
            return mask
        added = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
        return added.masked_fill_(~mask, torch.finfo(dtype).min)

    full = formed(mask)
    if window is None:
        return full
    sliding = formed(mask & (positions[:, None] - keys[None] < window))
    if getattr(config, "layer_types", None) is None:
        return sliding
    return {"full_attention": full, "sliding_attention": sliding}
