"""Short trees, several to a forward: prompts with their choices, each tree with its trunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from warehouse.probes.request import Ids, Request

FOREST_TOKENS = 4096
"""Tokens of one forward at most: its mask has the square of that."""


@dataclass(frozen=True)
class Piece:
    """A trunk or a branch: its place among the packed tokens, and whose it is.

    Attributes:
        ids: shape (n,).
        tree: the tree's number in the pack.
        request: whose branch; -1 for a trunk.
        prefix: how much of the trunk a branch sees.
    """

    ids: Ids
    tree: int
    request: int
    prefix: int


def short_trees(
    requests: Sequence[Request], trees: Sequence[list[int]], budget: int
) -> list[list[list[int]]]:
    """Packs of trees that fit into one forward together; a tree alone is in none.

    Args:
        requests: all of them.
        trees: indices of the requests that share a trunk.
        budget: tokens of a pack at most.
    """

    def size(tree: list[int]) -> int:
        return len(requests[tree[0]].trunk) + sum(len(requests[i].ids) for i in tree)

    packs: list[list[list[int]]] = [[]]
    room = budget
    for tree in sorted(trees, key=size):
        if size(tree) > budget:
            break
        if size(tree) > room:
            packs.append([])
            room = budget
        packs[-1].append(tree)
        room -= size(tree)
    return [pack for pack in packs if len(pack) > 1]


def pieces_of(requests: Sequence[Request], pack: Sequence[list[int]]) -> list[Piece]:
    """Trunks, each with its branches behind it."""
    pieces = []
    for number, tree in enumerate(pack):
        pieces.append(Piece(requests[tree[0]].trunk, number, -1, 0))
        pieces += [Piece(requests[i].ids, number, i, requests[i].prefix_length) for i in tree]
    return pieces


def columns_of(pieces: Sequence[Piece]) -> tuple[NDArray[np.int64], ...]:
    """What `tree.forest_of` takes: tree, branch, position and prefix of each packed token."""
    lengths = [len(piece.ids) for piece in pieces]
    tree, branch, prefix = (
        np.repeat([getattr(piece, name) for piece in pieces], lengths)
        for name in ("tree", "request", "prefix")
    )
    position = [np.arange(piece.prefix, piece.prefix + len(piece.ids)) for piece in pieces]
    return tree, branch, np.concatenate(position), prefix
