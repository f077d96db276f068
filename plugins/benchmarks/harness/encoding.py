"""Tokenize requests of a benchmark, and split them as lm-evaluation-harness does.

Scores are comparable only if prompt and continuation are split in the same way (lm_eval 0.4.13,
`TemplateLM._encode_pair` and `HFLM.loglikelihood_rolling`). Spaces at the end of a prompt belong to
the continuation. Prompt and continuation are tokenized together; with m tokens in the prompt alone,
the continuation starts at token m. An empty prompt is replaced by BOS or the end of text, and so is
one of white space, which the harness refuses for a model without BOS.

A text that is longer than the model's context loses tokens at its beginning, but keeps its BOS,
because many models predict poorly without BOS. The harness's class for transformers drops BOS too,
and scores the tokenizer's BOS behind a second one in a text without a prompt; the setting `harness`
reproduces both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import numpy as np

from extract.tokenization import DocumentTokenizer
from warehouse.errors import TokenmartError
from warehouse.probes.request import Ids, Request, span

TooLong = Literal["cut", "harness"]
"""Treatment of an item that is longer than the model's context; `harness` also cuts its BOS,
and scores BOS behind BOS."""


@dataclass(frozen=True)
class Pair:
    """A prompt and its scored continuation.

    Attributes:
        context: shape (m,), at least one token.
        continuation: shape (n,), the scored tokens.
        first: number of tokens of the text before the first scored token; of these, the ones not
            in `context` were cut.
        char_start: shape (n,); first character of each scored token in prompt + continuation.
        char_end: shape (n,); one past the last.
    """

    context: Ids
    continuation: Ids
    first: int
    char_start: Ids
    char_end: Ids

    @property
    def cut(self) -> int:
        """Number of tokens of the prompt that were cut."""
        return max(0, self.first - len(self.context))

    def request(self, segment: int, shared: int) -> Request:
        """The request of the engine.

        Args:
            segment: its number in the unit.
            shared: number of tokens at the beginning of the context that other requests share; all
                of them use one KV cache.
        """
        count = len(self.continuation)
        places: dict[str, Any] = {
            "segment": segment,
            "positions": span(self.first, self.first + count),
            "context_tokens": span(len(self.context), len(self.context) + count),
        }
        return Request(
            ids=np.concatenate([self.context[shared:], self.continuation]),
            first_target=len(self.context) - shared,
            prefix=self.context[:shared],
            prefix_length=shared,
            **places,
        )


class PairEncoder:
    """Tokenizes and cuts texts as the harness does, for one model.

    Args:
        tokenizer: the model's.
        longest: tokens of the model's context window.
        too_long: whether the beginning of a longer text is cut behind or with its BOS.

    Raises:
        TokenmartError: the tokenizer has neither a BOS nor an end of text to begin with.
    """

    def __init__(
        self, tokenizer: DocumentTokenizer, longest: int, too_long: TooLong = "cut"
    ) -> None:
        self.tokenizer = tokenizer
        self.longest = longest
        self.too_long = too_long
        library = tokenizer.library
        prefix = library.eos_token_id if library.bos_token_id is None else library.bos_token_id
        if prefix is None:
            raise TokenmartError(
                "its tokenizer has neither a BOS token nor an end of text; an empty prompt can't "
                "be scored"
            )
        self.prefix = int(prefix)
        self._library_bos = library.bos_token_id
        self._prefix_text = str(library.decode([self.prefix]))

    def _whole(self, text: str) -> tuple[Ids, Ids, Ids]:
        """Token ids and spans of a text, after BOS if the model has one."""
        document = self.tokenizer.encode(text)
        bos = self.tokenizer.bos
        if bos is None or (self._prefix_text and text.startswith(self._prefix_text)):
            return document.ids, document.char_start, document.char_end
        ids = np.concatenate([np.array([bos], dtype=np.int32), document.ids])
        start, end = (np.insert(s, 0, 0) for s in (document.char_start, document.char_end))
        return ids.astype(np.int32), start, end

    def pair(self, context: str, continuation: str) -> Pair:
        """A prompt and its continuation.

        Raises:
            TokenmartError: there is nothing to score, or the continuation alone is too long.
        """
        if context == "":
            document = self.tokenizer.encode(continuation)
            ids, start, end = document.ids, document.char_start, document.char_end
            behind = 1 if len(ids) and ids[0] == self.prefix else 0
            head = np.array([self.prefix], dtype=np.int32)
        else:
            spaces = len(context) - len(context.rstrip())
            ids, start, end = self._whole(context + continuation)
            head, _, _ = self._whole(context[: len(context) - spaces])
            behind = len(head)
            if not behind:  # white space alone, for a model without BOS
                head = np.array([self.prefix], dtype=np.int32)
        tail = ids[behind:]
        if not len(tail):
            raise TokenmartError(
                f"continuation {continuation[:40]!r} has no token of its own behind its prompt; "
                "correct the task"
            )
        if len(tail) > self.longest:
            raise TokenmartError(
                f"a continuation of {len(tail)} tokens, the model reads {self.longest}; shorten it"
            )
        kept = self._cut(head, self.longest + 1 - len(tail))
        return Pair(kept, tail, behind, start[behind:], end[behind:])

    def _cut(self, ids: Ids, most: int) -> Ids:
        """The last tokens of a prompt, after BOS if it begins with one that is kept."""
        cut = max(0, len(ids) - most)
        if not cut or not self._keeps_bos(ids):
            return ids[cut:]
        return np.concatenate([ids[:1], ids[cut + 1 :]])

    def _keeps_bos(self, ids: Ids) -> bool:
        """Whether a text begins with a BOS that is kept."""
        if self.too_long == "harness" or not len(ids):
            return False
        return int(ids[0]) in (self.tokenizer.bos, self._library_bos)

    def rolling(self, text: str) -> list[Pair]:
        """Every token of a text, in windows of the model's context; no window for an empty text.

        If the text begins with BOS, every window does. BOS itself is scored only under the setting
        `harness`: the harness puts one BOS before the tokenizer's own.
        """
        ids, start, end = self._whole(text)
        begun = int(self.too_long != "harness" and ids[:1].tolist() == [self.prefix])
        return [
            Pair(head, ids[first:stop], first, start[first:stop], end[first:stop])
            for head, first, stop in self._windows(ids, begun)
        ]

    def _windows(self, ids: Ids, begun: int) -> Iterator[tuple[Ids, int, int]]:
        """Context, first and end of the scored tokens of each window; `begun` tokens are BOS."""
        if len(ids) == begun:
            return
        # BOS takes the place of one token of each later window
        bos = ids[: int(self._keeps_bos(ids) and self.longest > 1)]
        stop = min(self.longest + begun, len(ids))
        yield np.array([self.prefix], dtype=np.int32), begun, stop
        while stop < len(ids):
            first, stop = stop, min(stop + self.longest - len(bos), len(ids))
            behind = max(0, stop - self.longest - 1 + len(bos))
            yield np.concatenate([bos, ids[behind:first]]), first, stop

    def prompt(self, context: str, most_tokens: int) -> tuple[Ids, int]:
        """A prompt to continue, cut so that the answer fits, and the number of tokens cut.

        Raises:
            TokenmartError: the answer alone is longer than the model's context.
        """
        most_kept = self.longest - most_tokens
        if most_kept < 1:
            raise TokenmartError(
                f"{most_tokens} tokens to write, the model reads {self.longest}; lower "
                "max_gen_toks of the task"
            )
        ids, _, _ = self._whole(context)
        if not len(ids):
            ids = np.array([self.prefix], dtype=np.int32)
        kept = self._cut(ids, most_kept)
        return kept, len(ids) - len(kept)

    def written(self, context: Ids, ids: Ids, cut: int) -> Pair:
        """Tokens generated after a cut prompt, with spans in the generated text."""
        lengths = [len(self.decode(ids[: n + 1])) for n in range(len(ids))]
        end = np.array(list(accumulate(lengths, max)), dtype=np.int32)
        start = np.concatenate([np.zeros(1, dtype=np.int32), end])[: len(ids)]
        return Pair(context, ids, len(context) + cut, start, end)

    def decode(self, ids: Ids) -> str:
        """The text of token ids, without special tokens."""
        return str(self.tokenizer.library.decode(ids.tolist(), skip_special_tokens=True))
