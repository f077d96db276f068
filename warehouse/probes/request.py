"""Requests and conditions: which tokens go in, which are scored, under which name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
NO_TOKENS: Ids = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True)
class Request:
    """Tokens to run and the ones among them to score.

    The model reads `trunk[:prefix_length]` and then `ids`; `ids[first_target:]` are scored.
    Requests that share a trunk share its KV cache.

    Attributes:
        segment: request within the document (window, excerpt).
        ids: shape (n,); tokens after the prefix.
        first_target: index in `ids` of the first scored token.
        positions: shape (n - first_target,); index in the document of each scored token.
        context_tokens: shape (n - first_target,); document tokens visible to its left.
        trunk: shape (p,); tokens before `ids`, empty for none.
        prefix_length: how many tokens of the trunk are visible.
    """

    segment: int
    ids: Ids
    first_target: int
    positions: Ids
    context_tokens: Ids
    trunk: Ids = field(default_factory=lambda: NO_TOKENS)
    prefix_length: int = 0

    @property
    def targets(self) -> Ids:
        """The scored token ids, shape (n - first_target,)."""
        return self.ids[self.first_target :]

    @property
    def key(self) -> tuple[bytes, bytes, int]:
        """What the scores depend on; requests with equal keys are the same work."""
        prefix = self.trunk[: self.prefix_length]
        return prefix.tobytes(), self.ids.tobytes(), self.first_target

    @property
    def length(self) -> int:
        """Tokens the last scored one could see, itself included."""
        return self.prefix_length + len(self.ids)


Build = Callable[[Ids, int | None], list[Request]]
"""From a document's tokens and the BOS (None for none) to requests."""


@dataclass(frozen=True)
class ConditionKind:
    """What holds for every row of one kind of condition, whatever its parameters.

    Attributes:
        name: as in the ledger's `condition_kind`.
        contiguous: positions follow each other without a gap, up to the document's last token.
        whole_context: positions begin at 0 or 1 and `context_tokens` is the position.
        reads_document: runs the whole document; such conditions are scored in one call, which
            computes the document's KV cache once.
        branches: requests continue the document, so its KV cache is kept for them.
    """

    name: str
    contiguous: bool = False
    whole_context: bool = False
    reads_document: bool = False
    branches: bool = False


@dataclass(frozen=True)
class Condition:
    """One context state that a probe creates: what the column `condition` names.

    Attributes:
        name: unique within a problem.
        kind: what holds for its rows.
        params: the probe's parameters, JSON-able; part of a unit's fingerprint.
        probe: name of the probe in the problem file.
        seed: of what is drawn at random, 0 where nothing is.
        build: makes the requests.
    """

    name: str
    kind: ConditionKind
    params: dict[str, Any]
    probe: str
    seed: int
    build: Build


def with_bos(tokens: Ids, bos: int | None) -> Ids:
    """The tokens behind the BOS, where there is one."""
    return tokens if bos is None else np.concatenate([np.array([bos], dtype=np.int32), tokens])


def span(start: int, stop: int) -> Ids:
    """start, start + 1 … stop − 1."""
    return np.arange(start, stop, dtype=np.int32)
