"""Tokenizers split text as the files of their repository say, whatever class reads them."""

from __future__ import annotations

import json
import random
import shutil
import unicodedata
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from checkpoint_samples import tokenizer_of
from refusal import refuses
from tiny_models import llama_tokenizer_json, make_text, make_tokenizer, train_sentencepiece
from tokenizers import Tokenizer

from extract.tokenization import DocumentTokenizer
from warehouse.errors import TokenmartError

TEXTS = [
    make_text(3),
    "  two  spaces\n\nnew line\ttab 123 € 中文",
    " one space before",
    "x\n y\u00a0z",
]


def make_sentencepiece(
    folder: Path, architecture: str, dummy_prefix: bool = True, **trained: Any
) -> Path:
    """A repository with a `tokenizer.model` in the manner of Llama, and no `tokenizer.json`."""
    texts = [make_text(seed) for seed in range(50)]
    train_sentencepiece(folder, texts, 340, add_dummy_prefix=dummy_prefix, **trained)
    name = "T5Tokenizer" if architecture == "t5" else "LlamaTokenizer"
    settings = {"tokenizer_class": name, "add_bos_token": True, "add_eos_token": False}
    settings |= {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "config.json").write_text(json.dumps({"model_type": architecture}))
    return folder


@pytest.mark.parametrize("architecture", ["llama", "mistral"])
@pytest.mark.parametrize("dummy_prefix", [True, False])
def test_a_tokenizer_model_alone_is_read_as_sentencepiece_reads_it(
    architecture, dummy_prefix, tmp_path
):
    from sentencepiece import SentencePieceProcessor

    folder = make_sentencepiece(tmp_path, architecture, dummy_prefix)
    tokenizer = tokenizer_of(folder)
    processor = SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    assert tokenizer.bos == 1
    for text in TEXTS:
        found = tokenizer.encode(text)
        assert found.ids.tolist() == processor.encode(text)
        assert found.char_end[-1] == len(text)
        assert (found.char_start <= found.char_end).all()


ALPHABET = [*"abc  \n\r\t.é€中文Ａ①½ﬁ\u00a0\u3000가\u200b", "e\u0301", "  ", " the ", "12"]
ALPHABET += ["\r\n", "\r"]


@pytest.mark.parametrize("rule", ["identity", "nfkc", "nmt_nfkc", "nmt_nfkc_cf"])
@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("removed", [True, False])
def test_a_normaliser_of_its_own_is_read_as_sentencepiece_reads_it(rule, kind, removed, tmp_path):
    from sentencepiece import SentencePieceProcessor

    folder = make_sentencepiece(
        tmp_path,
        "t5" if kind == "unigram" else "llama",
        normalization_rule_name=rule,
        remove_extra_whitespaces=removed,
        model_type=kind,
        hard_vocab_limit=False,
    )
    tokenizer = tokenizer_of(folder)
    processor = SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    draw = random.Random(5)
    texts = ["".join(draw.choices(ALPHABET, k=draw.randint(1, 20))) for _ in range(200)]
    for text in [*TEXTS, *texts, "", "   "]:
        found = tokenizer.encode(text)
        assert found.ids.tolist() == processor.encode(text), text
        assert (found.char_start <= found.char_end).all() and (found.char_end <= len(text)).all()
    odd = "ab ﬁ\u0301 c"  # one character to people, two to sentencepiece
    if rule != "identity":
        with refuses("other-normalisation"):
            tokenizer.encode(odd)
    else:
        assert tokenizer.encode(odd).ids.tolist() == processor.encode(odd)


@pytest.mark.parametrize(
    "settings",
    [
        {"treat_whitespace_as_suffix": True},
        {"model_type": "word", "vocab_size": 40, "hard_vocab_limit": False, "byte_fallback": False},
        {"model_type": "char", "byte_fallback": False, "vocab_size": 20},
    ],
)
def test_a_tokenizer_that_libraries_read_otherwise_is_refused(settings, tmp_path):
    folder = make_sentencepiece(tmp_path, "llama", **settings)
    with pytest.raises(TokenmartError) as caught:
        tokenizer_of(folder)
    assert "tokenizer.model" in caught.value.message


@pytest.mark.parametrize("dummy_prefix", [True, False])
def test_a_tokenizer_json_is_read_unchanged(dummy_prefix, tmp_path):
    folder = make_sentencepiece(tmp_path, "llama", dummy_prefix)
    wanted = tokenizer_of(folder)
    llama_tokenizer_json(folder, dummy_prefix, adds_bos=True)
    tokenizer = tokenizer_of(folder, "with tokenizer.json")
    published = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in TEXTS:
        ids = tokenizer.encode(text).ids.tolist()
        assert ids == published.encode(text, add_special_tokens=False).ids
        assert ids == wanted.encode(text).ids.tolist()
    assert tokenizer.bos == 1


def test_a_file_that_says_to_truncate_cuts_no_text(tmp_path, tiny_checkpoint):
    """tokenizer.json may keep the length that its model was trained with."""
    folder = shutil.copytree(tiny_checkpoint(), tmp_path / "m")
    path = folder / "tokenizer.json"
    cut = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
    content = json.loads(path.read_text("utf-8"))
    padding = {"strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None,
               "pad_id": 0, "pad_type_id": 0, "pad_token": "<s>"}  # fmt: skip
    path.write_text(json.dumps({**content, "truncation": cut, "padding": padding}), "utf-8")
    tokens = tokenizer_of(folder).encode(TEXTS[0])
    whole = tokenizer_of(tiny_checkpoint())
    assert tokens.ids.tolist() == whole.encode(TEXTS[0]).ids.tolist()


@pytest.mark.parametrize("normaliser", ["NFC", "NFKC"])
def test_hangul_written_as_its_parts_is_in_the_spans_of_its_syllables(normaliser, tmp_path):
    make_tokenizer(tmp_path, bos=False)
    file = tmp_path / "tokenizer.json"
    raw = json.loads(file.read_text())
    file.write_text(json.dumps({**raw, "normalizer": {"type": normaliser}}))
    composed = "a 한국어 가각 b"
    text = unicodedata.normalize("NFD", composed)
    found, whole = tokenizer_of(tmp_path).encode(text), tokenizer_of(tmp_path).encode(composed)
    assert found.ids.tolist() == whole.ids.tolist()
    places = [len(unicodedata.normalize("NFD", composed[:at])) for at in range(len(composed) + 1)]
    assert found.char_start.tolist() == [places[at] for at in whole.char_start]
    assert found.char_end.tolist() == [places[at] for at in whole.char_end]


def test_spans_without_length_are_refused():
    """tokenizers 1553, 1688: Llama 3 gave (0, 0), (6, 6)."""

    class Library:
        bos_token_id = None
        added_tokens_decoder = MappingProxyType({})
        backend_tokenizer = SimpleNamespace(to_str=str)

        def __call__(self, text: str, **_: object) -> dict[str, object]:
            whole = {"input_ids": [5, 6], "offset_mapping": [(0, 6), (6, 12)]}
            empty = {"input_ids": [5, 6], "offset_mapping": [(0, 0), (6, 6)]}
            return empty if text == "Sample input" else whole

    tokenizer = DocumentTokenizer(Library(), SimpleNamespace(bos="never", full_id="m"))
    assert tokenizer.encode("sample input").char_end.tolist() == [6, 12]
    with refuses("lost-text", "character 0"):
        tokenizer.encode("Sample input")
