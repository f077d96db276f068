"""Tokenizers as the files of their repository define them, whatever class of a library reads them.

transformers 5 rebuilds some tokenizers by rules of its own: of a `tokenizer.model` it drops the
space that sentencepiece puts before the text and most of its normaliser, of a `tokenizer.json` the
normaliser. Here both are set again, and compared with what their own library gives.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from warehouse.errors import TokenmartError

# what implementations differ in: a word at the start, spaces there and inside, lines, digits and
# the spaces before them, short forms, signs, bytes
_SAMPLES = (
    "Report to  the Congress\n\n\tof 2019: §5 naïve €", " a", "\n b", "中文 12345\u00a0x",
    " two  spaces \nＦｕｌｌ e\u0301 ﬁne ½ ", "한국 \u3000①\u200b x  ", "line\r\n\r\nend",
    "row    1   37\n  don't I'LL it's x_y (self.a1) 1234567 \n\n   end",
)  # fmt: skip
_TYPES = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


def read_as_published(backend: Any, folder: Path) -> Callable[[str], list[int]] | None:
    """Make a tokenizer split text as the files of its repository define.

    Args:
        backend: of the library `tokenizers`; its normaliser and model may be replaced.
        folder: with the tokenizer's files.

    Returns:
        Where a text may still be split otherwise, sentencepiece's own token ids of it: its rules
        of normalisation go character by character, in `tokenizers` by grapheme.

    Raises:
        TokenmartError: it gives other tokens; with the setting that is the cause.
    """
    if (folder / "tokenizer.json").is_file():
        _restore(backend, folder / "tokenizer.json")
        return None
    return _as_sentencepiece(backend, folder) if (folder / "tokenizer.model").is_file() else None


def _ids(backend: Any) -> list[list[int]]:
    return [backend.encode(text, add_special_tokens=False).ids for text in _SAMPLES]


def _restore(backend: Any, file: Path) -> None:
    from tokenizers import Tokenizer

    published = Tokenizer.from_file(str(file))
    for tokenizer in (published, backend):
        # a file may keep those of the model's training; a text is read whole
        tokenizer.no_truncation()
        tokenizer.no_padding()
    expected = _ids(published)
    if _ids(backend) != expected:
        backend.model = published.model
        backend.normalizer = published.normalizer
        backend.pre_tokenizer = published.pre_tokenizer
    if _ids(backend) != expected:
        raise TokenmartError(
            f"transformers {version('transformers')} splits text otherwise than its tokenizer.json "
            "says; save the tokenizer again with this version, and point source to that folder",
            code="other-tokens",
        )


def _as_sentencepiece(backend: Any, folder: Path) -> Callable[[str], list[int]] | None:
    from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2

    processor = SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    described: Any = sentencepiece_model_pb2
    model = described.ModelProto.FromString(processor.serialized_model_proto())
    wrong = _first_difference(backend, processor)
    if wrong is not None:
        _rebuild(backend, model, processor)
        wrong = _first_difference(backend, processor)
    if wrong is not None:
        kind = _TYPES.get(model.trainer_spec.model_type, "of another type")
        raise TokenmartError(
            f"its tokenizer.model (a {kind}) is read otherwise than sentencepiece reads it "
            f"({wrong!r} for one); convert it to a tokenizer.json and point source to that folder",
            code="other-tokens",
        )
    return processor.encode if model.normalizer_spec.precompiled_charsmap else None


def _first_difference(backend: Any, processor: Any) -> str | None:
    ids = _ids(backend)
    pairs = zip(_SAMPLES, ids, strict=True)
    return next((text for text, found in pairs if found != processor.encode(text)), None)


def _rebuild(backend: Any, model: Any, processor: Any) -> None:
    """Sentencepiece's steps in its order: characters, spaces, prefix; and its own table."""
    from tokenizers import Regex, models, normalizers

    rules, trained = model.normalizer_spec, model.trainer_spec
    steps: list[Any] = []
    if rules.precompiled_charsmap:
        # by grapheme, \r\n is one character
        carriage = processor.normalize("a\rb").replace("▁", " ").strip(" ")[1:-1]
        if carriage != "\r":
            steps.append(normalizers.Replace(Regex(r"\r(?=\n)"), carriage))
        steps.append(normalizers.Precompiled(rules.precompiled_charsmap))
    if rules.remove_extra_whitespaces:
        steps.append(normalizers.Replace(Regex(r"\A +| +\z"), ""))
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
    if rules.add_dummy_prefix:
        steps.append(normalizers.Prepend("▁"))
    backend.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
    backend.pre_tokenizer = None
    if _TYPES.get(trained.model_type) == "unigram":
        pieces = [(each.piece, each.score) for each in model.pieces]
        backend.model = models.Unigram(pieces, trained.unk_id, trained.byte_fallback)
