"""Requests of a benchmark in a model's tokens, split where lm-evaluation-harness splits them.

Scores are only comparable if prompt and continuation are cut alike: spaces at the end of a prompt
belong to what follows, the tokens of the continuation are those of the whole text behind as many
as the prompt has, and an empty prompt is the text's first token or BOS (lm_eval 0.4.13,
`TemplateLM._encode_pair` and `HFLM.loglikelihood_rolling`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from extract.tokenization import DocumentTokenizer
from warehouse.errors import TokenmartError
from warehouse.probes.request import Ids, Request, span


@dataclass(frozen=True)
class Pair:
    """A prompt and what is scored behind it.

    Attributes:
        context: shape (m,), at least one token.
        continuation: shape (n,), the scored tokens.
        first: place of the first scored token in the tokens of the text.
        char_start: shape (n,); first character of each scored token in prompt + continuation.
        char_end: shape (n,); one past the last.
    """

    context: Ids
    continuation: Ids
    first: int
    char_start: Ids
    char_end: Ids

    def request(self, segment: int, *, shares_context: bool) -> Request:
        """The request of the engine; with a shared context its KV cache serves all choices."""
        count = len(self.continuation)
        places: dict[str, Any] = {
            "segment": segment,
            "positions": span(self.first, self.first + count),
            "context_tokens": span(len(self.context), len(self.context) + count),
        }
        if shares_context:
            return Request(
                ids=self.continuation,
                first_target=0,
                prefix=self.context,
                prefix_length=len(self.context),
                **places,
            )
        ids = np.concatenate([self.context, self.continuation])
        return Request(ids=ids, first_target=len(self.context), **places)


class PairEncoder:
    """Cuts texts as the harness does, for one model.

    Args:
        tokenizer: the model's.
        longest: tokens that the model reads at once; a longer prompt loses its beginning.

    Raises:
        TokenmartError: the tokenizer has neither a BOS nor an end of text to begin with.
    """

    def __init__(self, tokenizer: DocumentTokenizer, longest: int) -> None:
        self.tokenizer = tokenizer
        self.longest = longest
        library = tokenizer.library
        prefix = library.eos_token_id if library.bos_token_id is None else library.bos_token_id
        if prefix is None:
            raise TokenmartError(
                "its tokenizer has neither a BOS token nor an end of text; an empty prompt can't "
                "be scored"
            )
        self.prefix = int(prefix)
        self._prefix_text = str(library.decode([self.prefix]))

    def _whole(self, text: str) -> tuple[Ids, Ids, Ids]:
        """Ids and spans of a text as the harness reads it: behind a BOS where there is one."""
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
            TokenmartError: nothing to score, or more than the model reads.
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
        head = head[max(0, len(head) + len(tail) - self.longest - 1) :]
        return Pair(head, tail, behind, start[behind:], end[behind:])

    def rolling(self, text: str) -> list[Pair]:
        """Every token of a text, in windows as long as the model reads.

        Raises:
            TokenmartError: the text has no tokens.
        """
        ids, start, end = self._whole(text)
        if not len(ids):
            raise TokenmartError("a text without tokens; remove it from the task")
        return [
            Pair(head, ids[first:stop], first, start[first:stop], end[first:stop])
            for head, first, stop in self._windows(ids)
        ]

    def _windows(self, ids: Ids) -> Iterator[tuple[Ids, int, int]]:
        stop = min(self.longest, len(ids))
        yield np.array([self.prefix], dtype=np.int32), 0, stop
        while stop < len(ids):
            first, stop = stop, min(stop + self.longest, len(ids))
            yield ids[max(0, stop - self.longest - 1) : first], first, stop

    def prompt(self, context: str, most_tokens: int) -> Ids:
        """A prompt to write behind, cut on the left so that the answer fits.

        Raises:
            TokenmartError: the answer alone is longer than the model reads.
        """
        room = self.longest - most_tokens
        if room < 1:
            raise TokenmartError(
                f"{most_tokens} tokens to write, the model reads {self.longest}; lower "
                "max_gen_toks of the task"
            )
        ids, _, _ = self._whole(context)
        return ids[-room:]

    def written(self, context: Ids, ids: Ids) -> Pair:
        """Tokens that the model wrote behind a prompt, spans in the text that it wrote."""
        lengths = [len(self.decode(ids[: n + 1])) for n in range(len(ids))]
        end = np.array(list(accumulate(lengths, max)), dtype=np.int32)
        start = np.concatenate([np.zeros(1, dtype=np.int32), end])[: len(ids)]
        return Pair(context, ids, len(context), start, end)

    def decode(self, ids: Ids) -> str:
        """The text of ids, special tokens left out."""
        return str(self.tokenizer.library.decode(ids.tolist(), skip_special_tokens=True))
