"""A document in one model's tokens, with the character span of each."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extract.checkpoints import Checkpoint, trusts_remote_code
from extract.failures import load_errors
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.probes.request import Ids
from warehouse.problem.spec import ModelSpec
from warehouse.sources.hashes import remembered
from warehouse.sources.tokenizer_files import check_sentencepiece, needs_sentencepiece


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
        bos: what stands before a text, None for nothing.
        sha256: hash of its files' content and of the BOS policy.

    Raises:
        TokenmartError: the tokenizer gives no character spans, or a BOS is asked for and
            it has none.
    """

    def __init__(self, tokenizer: Any, spec: ModelSpec) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise TokenmartError(
                f"{spec.full_id}: its tokenizer gives no character spans (not a 'fast' one); "
                "convert it with AutoTokenizer.from_pretrained(…, use_fast=True).save_pretrained"
                " and point source to that folder"
            )
        self.library = tokenizer
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

    def encode(self, text: str) -> TokenizedDocument:
        """Tokens of a text, without special tokens, uncut."""
        batch = self.library(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        ids = np.asarray(batch["input_ids"], dtype=np.int32)
        spans = np.asarray(batch["offset_mapping"], dtype=np.int32).reshape(-1, 2)
        return TokenizedDocument(ids, spans[:, 0], spans[:, 1], len(ids))


def load_tokenizer(checkpoint: Checkpoint, spec: ModelSpec) -> DocumentTokenizer:
    """Load a checkpoint's tokenizer; variants of one checkpoint share it.

    Raises:
        TokenmartError: it can't be loaded, or gives no character spans.
    """
    with load_errors(spec):
        tokenizer = _tokenizer(checkpoint, trusts_remote_code(spec))
    _refuse_unknown_tokens(tokenizer, checkpoint.folder, spec)
    return DocumentTokenizer(tokenizer, spec)


def _refuse_unknown_tokens(tokenizer: Any, folder: Path, spec: ModelSpec) -> None:
    """Stop at a tokenizer with tokens for which the model has no embeddings.

    Special tokens alone may go beyond them (padding that was added for training): no ordinary text
    gives them, and the engine refuses a text that does.

    Raises:
        TokenmartError: it has ordinary tokens beyond the embeddings, or its BOS is.
    """
    rows = _embedding_rows(folder)
    if rows is None:
        return
    beyond = {token: id_ for token, id_ in tokenizer.get_vocab().items() if id_ >= rows}
    added = getattr(tokenizer, "added_tokens_decoder", {})
    special = {str(token) for token in added.values() if token.special} - {tokenizer.bos_token}
    ordinary = sorted(set(beyond) - special, key=lambda token: beyond[token])
    if ordinary:
        first = ", ".join(f"{token!r} = {beyond[token]}" for token in ordinary[:3])
        raise TokenmartError(
            f"{spec.full_id}: its tokenizer has {len(ordinary)} tokens beyond the {rows} rows of "
            f"the embeddings ({first}); take the tokenizer that was trained with these weights, or "
            "correct `vocab_size` in config.json"
        )


def _embedding_rows(folder: Path) -> int | None:
    """What config.json gives; the loader compares it with the weights. None without one."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return int({**config, **config.get("text_config", {})}["vocab_size"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def tokenizer_fingerprint(checkpoint: Checkpoint, spec: ModelSpec, workspace: Workspace) -> str:
    """sha256 of a checkpoint's tokenizer and BOS policy, without loading it a second time."""
    reader = f"as published, BOS of GGUF as stated|transformers={version('transformers')}"
    key = f"tokenizer|{checkpoint.revision}|bos={spec.bos}|{reader}"
    return remembered(key, lambda: load_tokenizer(checkpoint, spec).sha256, workspace)


@lru_cache(maxsize=2)
def _tokenizer(checkpoint: Checkpoint, trust_remote_code: bool) -> Any:
    from transformers import AutoTokenizer

    if needs_sentencepiece(checkpoint.folder):
        check_sentencepiece()
    tokenizer = AutoTokenizer.from_pretrained(
        checkpoint.folder, trust_remote_code=trust_remote_code
    )
    if getattr(tokenizer, "is_fast", False):
        _read_as_published(tokenizer.backend_tokenizer, checkpoint.folder)
    return tokenizer


# what implementations differ in: a word at the start, spaces there and inside, lines, digits, bytes
_SAMPLES = ("Report to  the Congress\n\n\tof 2019: §5 naïve €", " a", "\n b", "中文 12345\u00a0x")


def _read_as_published(backend: Any, folder: Path) -> None:
    """Make a tokenizer split text as the files of its repository say.

    transformers 5 rebuilds some tokenizers by rules of its own: of a `tokenizer.model` it drops the
    space that sentencepiece puts before the text, of a `tokenizer.json` the normaliser.

    Raises:
        TokenmartError: it still gives other tokens than sentencepiece.
    """
    from tokenizers import Tokenizer, normalizers

    file = folder / "tokenizer.json"
    if file.is_file():
        published = Tokenizer.from_file(str(file))
        published.no_truncation()
        expected = [published.encode(text, add_special_tokens=False).ids for text in _SAMPLES]
        if _ids(backend) != expected:
            backend.model = published.model
            backend.normalizer = published.normalizer
            backend.pre_tokenizer = published.pre_tokenizer
    elif needs_sentencepiece(folder):
        from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2

        processor = SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
        expected = [processor.encode(text) for text in _SAMPLES]
        if _ids(backend) != expected:
            described: Any = sentencepiece_model_pb2
            model = described.ModelProto.FromString(processor.serialized_model_proto())
            rules = model.normalizer_spec
            steps: list[Any] = []
            if rules.precompiled_charsmap:
                steps.append(normalizers.Precompiled(rules.precompiled_charsmap))
            if rules.add_dummy_prefix:
                steps.append(normalizers.Prepend("▁"))
            backend.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
            backend.pre_tokenizer = None
    else:
        return
    if _ids(backend) != expected:
        raise TokenmartError(
            f"transformers {version('transformers')} splits text otherwise than its own tokenizer "
            "files say; convert them to a tokenizer.json and point source to that folder"
        )


def _ids(backend: Any) -> list[list[int]]:
    return [backend.encode(text, add_special_tokens=False).ids for text in _SAMPLES]
