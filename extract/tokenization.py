"""A document in one model's tokens, with the character span of each."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extract.checkpoints import (
    Checkpoint,
    checkpoint_here,
    find_checkpoint,
    trusts_remote_code,
)
from extract.failures import explain, load_errors
from extract.planning.selection import Selection
from warehouse.errors import TokenmartError
from warehouse.files import cached
from warehouse.paths import Workspace
from warehouse.probes.request import Ids
from warehouse.problem.models import ModelSpec
from warehouse.sources.configurations import text_config
from warehouse.sources.tokenizer_files import read_as_published


@dataclass(frozen=True)
class TokenizedDocument:
    """A document in one model's tokens, special tokens left out.

    Attributes:
        ids: shape (n,); vocabulary ids.
        char_start: shape (n,); first character of each token in the document's text.
        char_end: shape (n,); one past the last character, in Unicode code points.
        total_tokens: tokens of the whole document; n is smaller after a cut.
        over_limit_tokens: by how many tokens n is more than the model's context.
    """

    ids: Ids
    char_start: NDArray[np.int32]
    char_end: NDArray[np.int32]
    total_tokens: int
    over_limit_tokens: int = 0

    def cut(self, tokens: int, over_limit_tokens: int = 0) -> TokenizedDocument:
        """The first `tokens` tokens, which may be more than the model's context."""
        kept = slice(0, tokens)
        return replace(
            self,
            ids=self.ids[kept],
            char_start=self.char_start[kept],
            char_end=self.char_end[kept],
            over_limit_tokens=over_limit_tokens,
        )


class DocumentTokenizer:
    """A tokenizer with character spans and an explicit BOS policy.

    Attributes:
        library: the tokenizer of transformers.
        bos: the token before a text, None for none.
        sha256: hash of its files' content and of the BOS policy.

    Raises:
        TokenmartError: a BOS is asked for and the tokenizer has none.
    """

    def __init__(
        self, tokenizer: Any, spec: ModelSpec, exact_ids: Callable[[str], list[int]] | None = None
    ) -> None:
        self.library = tokenizer
        self._exact_ids = exact_ids
        self.bos = self._bos(spec)
        described = tokenizer.backend_tokenizer.to_str() + f"|bos={self.bos}"
        self.sha256 = hashlib.sha256(described.encode()).hexdigest()

    def _bos(self, spec: ModelSpec) -> int | None:
        bos = self.library.bos_token_id
        if spec.bos == "never":
            return None
        if spec.bos == "always":
            if bos is None:
                raise TokenmartError(
                    f"{spec.full_id}: bos: always, but its tokenizer has no BOS token; use "
                    "bos: never or bos: tokenizer"
                )
            return int(bos)
        ids = self.library("a").input_ids
        return int(bos) if bos is not None and ids and ids[0] == bos else None

    @property
    def trained_vocabulary(self) -> dict[str, int]:
        """Ids of the tokens, without those that were added to a trained vocabulary."""
        vocabulary: dict[str, int] = self.library.backend_tokenizer.get_vocab(
            with_added_tokens=False
        )
        return vocabulary

    def encode(self, text: str) -> TokenizedDocument:
        """Tokens of a text, without special tokens, uncut.

        Raises:
            TokenmartError: the tokenizer's own library splits this text otherwise, or fails.
        """
        try:
            batch = self.library(
                text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )
            ids = np.asarray(batch["input_ids"], dtype=np.int32)
            spans = np.asarray(batch["offset_mapping"], dtype=np.int32).reshape(-1, 2)
            self._refuse_other_ids(text, ids, spans)
        except (TokenmartError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of `tokenizers` is no Exception
            raise TokenmartError(
                f"its tokenizer fails on this text ({explain(error)}); leave the text out, or "
                "correct the tokenizer",
                code="tokenizer-failed",
            ) from None
        spans = _with_composed_letters(text, spans)
        _refuse_lost_text(text, spans)
        return TokenizedDocument(ids, spans[:, 0], spans[:, 1], len(ids))

    def _refuse_other_ids(self, text: str, ids: Ids, spans: NDArray[np.int32]) -> None:
        special = self.library.added_tokens_decoder.values() if self._exact_ids else ()
        if self._exact_ids is None or any(str(token) in text for token in special):
            return
        exact = self._exact_ids(text)
        if exact != ids.tolist():
            same = next(
                (at for at, (a, b) in enumerate(zip(exact, ids, strict=False)) if a != b), 0
            )
            first = int(spans[min(same, len(spans) - 1), 0]) if len(spans) else 0
            raise TokenmartError(
                f"near character {first} ({text[max(0, first - 8) : first + 8]!r}): the normaliser "
                "of its tokenizer.model reads the text otherwise than the library that gives the "
                "tokens' places; remove the combining character there, or leave this text out",
                code="other-normalisation",
                where=f"character {first}",
            )


def _lost_letters(text: str, spans: NDArray[np.int32]) -> list[int]:
    """Places of the letters and digits that no token's span has."""
    steps = np.zeros(len(text) + 1, dtype=np.int32)
    np.add.at(steps, spans[:, 0], 1)
    np.add.at(steps, spans[:, 1], -1)
    outside = np.flatnonzero(np.cumsum(steps[:-1]) <= 0)
    return [int(at) for at in outside if text[at].isalnum()]


def _with_composed_letters(text: str, spans: NDArray[np.int32]) -> NDArray[np.int32]:
    """Spans that have the letters which a normaliser composed with the character before them.

    Hangul written as its parts is one character under NFC, whose span is that of the first part.
    """
    ends: dict[int, int] = {}
    begin, last = 0, -2
    for at in _lost_letters(text, spans):
        begin = begin if at == last + 1 else at
        last = at
        if begin and len(unicodedata.normalize("NFC", text[begin - 1 : at + 1])) == 1:
            ends[begin] = at + 1
    if not ends:
        return spans
    longer = [ends.get(int(end), int(end)) for end in spans[:, 1]]
    return np.column_stack([spans[:, 0], np.asarray(longer, dtype=np.int32)])


def _refuse_lost_text(text: str, spans: NDArray[np.int32]) -> None:
    """Stop at letters and digits that no token's span has: text is matched by its characters.

    Some versions of `tokenizers` gave spans of no length (its issues 1553 and 1688: Llama 3).

    Raises:
        TokenmartError: there are such characters (code `lost-text`).
    """
    if lost := _lost_letters(text, spans):
        at = lost[0]
        raise TokenmartError(
            f"character {at} ({text[max(0, at - 8) : at + 8]!r}) is in no token's span, so "
            "its tokenizer can't match tokens with text; update the package tokenizers",
            code="lost-text",
            where=f"character {at}",
        )


def load_tokenizer(checkpoint: Checkpoint, spec: ModelSpec) -> DocumentTokenizer:
    """Load a checkpoint's tokenizer; variants of one checkpoint share it.

    Raises:
        TokenmartError: it can't be loaded, or gives no character spans.
    """
    with load_errors(spec, checkpoint.folder):
        tokenizer, exact_ids = _tokenizer(checkpoint, trusts_remote_code(spec))
    _refuse_unknown_tokens(tokenizer, checkpoint.folder, spec)
    return DocumentTokenizer(tokenizer, spec, exact_ids)


def _refuse_unknown_tokens(tokenizer: Any, folder: Path, spec: ModelSpec) -> None:
    """Stop at a tokenizer with tokens for which the model has no embeddings: it is another model's.

    Special tokens alone may go beyond them (padding that was added for training): no ordinary text
    gives them, and the engine refuses a text that does.

    Raises:
        TokenmartError: it has ordinary tokens beyond the embeddings, or its BOS is.
    """
    # the loader compares this value with the weights
    rows = text_config(folder).get("vocab_size")
    added = tokenizer.added_tokens_decoder.values()
    special = {token.content for token in added if token.special} - {tokenizer.bos_token}
    ids = {id_: token for token, id_ in tokenizer.get_vocab().items() if token not in special}
    largest = max(ids, default=0)
    if isinstance(rows, int) and largest >= rows:
        raise TokenmartError(
            f"{spec.full_id}: its tokenizer has token {ids[largest]!r} = {largest}, and the model "
            f"has embeddings for {rows} tokens; take the tokenizer that was trained with these "
            "weights, or correct `vocab_size` in config.json",
            code="tokens-beyond-embeddings",
            where=ids[largest],
        )


def refuse_other_vocabulary(
    spec: ModelSpec,
    tokenizer: DocumentTokenizer,
    reference: ModelSpec,
    reference_tokenizer: DocumentTokenizer,
) -> None:
    """Stop where predictions of two models are over different tokens, or their BOS differs.

    Tokens that were added to a trained vocabulary may differ: chat markers, padding.

    Raises:
        TokenmartError: they are (code `other-vocabulary`).
    """
    trained, expected = tokenizer.trained_vocabulary, reference_tokenizer.trained_vocabulary
    if trained == expected and tokenizer.bos == reference_tokenizer.bos:
        return
    differing = sorted(trained.items() ^ expected.items(), key=lambda item: item[1])
    what = f"{len(differing)} tokens differ" if differing else "their BOS policies differ"
    raise TokenmartError(
        f"{spec.full_id}: it can't be compared with {reference.full_id}, whose vocabulary is other "
        f"({what}); leave the model or the probe out (choose with --model and --probe)",
        code="other-vocabulary",
        where=f"{spec.full_id}, {reference.full_id}",
    )


def refuse_other_vocabularies(selection: Selection, *, fetch: bool) -> None:
    """Stop before any work where a model can't be compared with its reference.

    A model whose files can't be read fails when its turn comes.

    Args:
        selection: what is about to run.
        fetch: whether files may be fetched and converted; else models without them are left out.

    Raises:
        TokenmartError: see `refuse_other_vocabulary`.
    """
    for name in selection.references:
        reference = selection.problem.model(name)
        # variants of one checkpoint share its tokenizer
        compared = {(reference.base or name, reference.bos)}
        for spec in selection.models:
            key = spec.base or spec.full_id, spec.bos
            if key in compared:
                continue
            compared.add(key)
            tokenizer = _tokenizer_here(selection, spec, fetch=fetch)
            expected = _tokenizer_here(selection, reference, fetch=fetch)
            if tokenizer is not None and expected is not None:
                refuse_other_vocabulary(spec, tokenizer, reference, expected)


def _tokenizer_here(
    selection: Selection, spec: ModelSpec, *, fetch: bool
) -> DocumentTokenizer | None:
    """A model's tokenizer; None if its files are not here, or can't be read."""
    problem, workspace = selection.problem, selection.workspace
    with suppress(TokenmartError):
        here = checkpoint_here(spec, problem.folders(workspace, offline=True))
        if here is None and fetch:
            here = find_checkpoint(spec, workspace, problem.name, problem.argument)
        return None if here is None else load_tokenizer(here, spec)
    return None


def tokenizer_fingerprint(checkpoint: Checkpoint, spec: ModelSpec, workspace: Workspace) -> str:
    """sha256 of a checkpoint's tokenizer and BOS policy, without loading it a second time."""
    reader = f"as published, GGUF as stated|transformers={version('transformers')}"
    key = f"tokenizer|{checkpoint.revision}|bos={spec.bos}|{reader}"
    return cached(key, lambda: load_tokenizer(checkpoint, spec).sha256, workspace)


@lru_cache(maxsize=2)
def _tokenizer(
    checkpoint: Checkpoint, trust_remote_code: bool
) -> tuple[Any, Callable[[str], list[int]] | None]:
    """A tokenizer of transformers, and what checks its ids: see `read_as_published`."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(
        checkpoint.folder, trust_remote_code=trust_remote_code
    )
    if not getattr(tokenizer, "is_fast", False):
        raise TokenmartError(
            "its tokenizer gives no character spans (not a 'fast' one); convert it with "
            "AutoTokenizer.from_pretrained(…, use_fast=True).save_pretrained and point source to "
            "that folder"
        )
    return tokenizer, read_as_published(tokenizer.backend_tokenizer, checkpoint.folder)
