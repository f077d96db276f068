"""Requests and conditions: which tokens go in, which are scored, under which name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
NO_TOKENS: Ids = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True)
class Request:
    """Tokens to run and the ones among them to score.

    The model reads `prefix[:prefix_length]` and then `ids`; `ids[first_target:]` are scored.
    Requests that share a prefix share its KV cache.

    Attributes:
        segment: request within the document (window, excerpt).
        ids: shape (n,); tokens after the prefix: its suffix.
        first_target: index in `ids` of the first scored token.
        positions: shape (n - first_target,); index in the document of each scored token.
        context_tokens: shape (n - first_target,); document tokens visible to its left.
        prefix: shape (p,); tokens before `ids`, empty for none.
        prefix_length: how many tokens of the prefix are visible.
    """

    segment: int
    ids: Ids
    first_target: int
    positions: Ids
    context_tokens: Ids
    prefix: Ids = field(default_factory=lambda: NO_TOKENS)
    prefix_length: int = 0

    @property
    def targets(self) -> Ids:
        """The scored token ids, shape (n - first_target,)."""
        return self.ids[self.first_target :]

    @property
    def key(self) -> tuple[bytes, bytes, int]:
        """Values that the scores depend on; requests with equal keys are the same work."""
        prefix = self.prefix[: self.prefix_length]
        return prefix.tobytes(), self.ids.tobytes(), self.first_target

    @property
    def length(self) -> int:
        """Tokens the last scored one could see, itself included."""
        return self.prefix_length + len(self.ids)


@dataclass(frozen=True)
class DocumentTokens:
    """A document as one model reads it: what a probe makes requests of.

    Attributes:
        ids: shape (n,); its tokens as far as they are used, special ones left out.
        char_start: shape (n,); first character of each token in `text`, never decreasing.
        char_end: shape (n,); one past the last.
        text: the whole document, also where its tokens were cut.
        bos: what the model puts before a text; None for nothing.
        foreign: another document of the corpus, at most n tokens of it; given to conditions
            whose kind `reads_foreign`.
    """

    ids: Ids
    char_start: Ids
    char_end: Ids
    text: str
    bos: int | None
    foreign: DocumentTokens | None = None

    @property
    def characters(self) -> int:
        """Characters of the text that the used tokens cover."""
        return int(self.char_end[-1]) if len(self.ids) else 0

    @property
    def foreign_ids(self) -> Ids:
        """Tokens of the other document, for a kind that `reads_foreign`."""
        assert self.foreign is not None, "extraction gives one to a kind that reads_foreign"
        return self.foreign.ids

    def token_at(self, character: int) -> int:
        """Index of the first token that begins at this character or after it."""
        return int(np.searchsorted(self.char_start, character))


@dataclass(frozen=True)
class ConditionKind:
    """Properties of every row of one kind of condition, for any parameters.

    Attributes:
        name: as in the ledger's `condition_kind`.
        contiguous: positions follow each other without a gap, up to the document's last token.
        whole_context: positions begin at 0 or 1 and `context_tokens` is the position.
        reads_document: runs the whole document; such conditions are scored in one call, which
            computes the document's KV cache once.
        shares_prefix: requests continue a long text, so its KV cache is kept for them.
        reads_foreign: needs another document of the corpus; its hash is part of the fingerprint.
        repeats_positions: one position may be scored several times, in different segments.
        revision: raised when equal parameters produce different rows; part of the fingerprint.
    """

    name: str
    contiguous: bool = False
    whole_context: bool = False
    reads_document: bool = False
    shares_prefix: bool = False
    reads_foreign: bool = False
    repeats_positions: bool = False
    revision: int = 1


@dataclass(frozen=True)
class Condition:
    """One context state that a probe creates: what the column `condition` names.

    Attributes:
        name: unique within a problem.
        kind: what holds for its rows.
        params: the probe's parameters, JSON-able; part of a unit's fingerprint.
        probe: name of the probe in the problem file.
        seed: of what is drawn at random, 0 where nothing is.
        maker: the probe itself; None for a condition of which only the record is written.
        top_k: number of top-k tokens of each scored position for the side table; no part of a
            fingerprint.
        reference: full id of the model whose predictions each model's are compared with; empty
            for none.
    """

    name: str
    kind: ConditionKind
    params: dict[str, Any]
    probe: str
    seed: int
    maker: RequestMaker | None = None
    top_k: int = 0
    reference: str = ""

    def build(self, document: DocumentTokens) -> list[Request]:
        """The requests of a document: method `requests` of its probe."""
        assert self.maker is not None, f"{self.name} has no probe"
        return self.maker.requests(self, document)


class RequestMaker(Protocol):
    """What makes the requests of a condition: a `Probe`."""

    def requests(self, condition: Condition, document: DocumentTokens) -> list[Request]:
        """The requests of a document."""


def scores_end(
    segment: int, ids: Ids, positions: Ids, context_tokens: Ids, prefix: Ids = NO_TOKENS
) -> Request:
    """A request that scores the last tokens of `ids`, those at `positions` of the document."""
    first = len(ids) - len(positions)
    return Request(segment, ids, first, positions, context_tokens, prefix, len(prefix))


def with_bos(tokens: Ids, bos: int | None) -> Ids:
    """The tokens behind the BOS, where there is one."""
    return tokens if bos is None else np.concatenate([np.array([bos], dtype=np.int32), tokens])


def span(start: int, stop: int) -> Ids:
    """start, start + 1 … stop − 1."""
    return np.arange(start, stop, dtype=np.int32)
