"""The types of pre-tokenizers that GGUF files name: each splits text as it does in llama.cpp."""

from __future__ import annotations

import random
import shutil
from typing import Any

import pytest
from checkpoint_samples import spec_of, write_gguf
from refusal import refuses
from tiny_models import make_tokenizer
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

from extract.checkpoints import find_checkpoint
from extract.gguf_tokenizers import BEGINS_WITH_BOS, PATTERNS, WHOLE_WORDS, split_as_stated
from extract.tokenization import load_tokenizer, tokenizer_fingerprint

# spaces before digits, long numbers, short forms, signs, line ends, scripts, combining marks
TEXTS = (
    "row   12345 I'LL x_y.z\r\n\n  中文é한ab \u0301ß/\n",
    "it'sun e\u0301x a b\n\n\n" + " " * 7 + "1234 `$\t。x I'mAN <b",
)
# by hand from the patterns in llama.cpp; a bar between two pieces
PIECES: dict[str, tuple[str, str]] = {
    "default": (
        "row|  | |123|45| I|'|LL| x|_|y|.|z|\r\n\n | 中文é한ab| \u0301|ß|/|\n",
        "it|'|sun| e|\u0301|x| a| b|\n\n\n      | |123|4| `|$|\t|。|x| I|'|mAN| |<|b",
    ),
    "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert "
    "jina-v1-en jina-v2-code roberta-bpe mpt olmo jais trillion granite-docling exaone4": (
        "row|  | 12345| I|'|LL| x|_|y|.|z|\r\n\n | 中文é한ab| \u0301|ß|/|\n",
        "it|'s|un| e|\u0301|x| a| b|\n\n\n      | 1234| `$|\t|。|x| I|'m|AN| <|b",
    ),
    "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2": (
        "row|   |1|2|3|4|5| I|'|LL| x|_|y|.|z|\r\n\n | 中文é한ab| \u0301|ß|/|\n",
        "it|'s|un| e|\u0301|x| a| b|\n\n\n       |1|2|3|4| `$|\t|。|x| I|'m|AN| <|b",
    ),
    "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx "
    "smaug-bpe glm4 chatglm-bpe": (
        "row|  | |123|45| I|'LL| x|_y|.z|\r\n\n| | 中文é한ab| \u0301|ß|/\n",
        "it|'s|un| e|\u0301x| a| b|\n\n\n|      | |123|4| `$|\t|。x| I|'m|AN| <|b",
    ),
    "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2 "
    "bailingmoe bailingmoe2 llada-moe": (
        "row|  | |1|2|3|4|5| I|'LL| x|_y|.z|\r\n\n| | 中文é한ab| \u0301|ß|/\n",
        "it|'s|un| e|\u0301x| a| b|\n\n\n|      | |1|2|3|4| `$|\t|。x| I|'m|AN| <|b",
    ),
    "gpt-4o llama4 kanana2 talkie minimax-m2": (
        "row|  | |123|45| I'LL| x|_y|.z|\r\n\n| | 中文é한ab| \u0301ß|/\n",
        "it's|un| e\u0301x| a| b|\n\n\n|      | |123|4| `$|\t|。x| I'm|AN| <|b",
    ),
    "deepseek-v3 hunyuan-dense hy_v4 joyai-llm": (
        "row|   |123|45| I|'LL| x|_y|.z|\r\n\n|  |中文|é한ab| \u0301ß|/\n",
        "it|'sun| e\u0301x| a| b|\n\n\n|       |123|4| `$|\t|。|x| I|'mAN| <|b",
    ),
    "poro-chat bloom gpt3-finnish": (
        "row|  | 12345| I'LL| x_y|.|z|\r\n\n | 中文é한ab| \u0301ß/|\n",
        "it'sun| e\u0301x| a| b|\n\n\n      | 1234| `$|\t。|x| I'mAN| <b",
    ),
    "tiny_aya cohere2moe": (
        "row|   |12|345| I'LL| x|_y|.z|\r\n\n| | 中文é한ab| \u0301ß|/\n",
        "it's|un| e\u0301x| a| b|\n\n\n|       |1|234| `$|\t|。x| I'm|AN| <|b",
    ),
    "viking": (
        "row|  | |1|2|3|4|5| I'LL| x_y|.|z|\r\n\n | 中文é한ab| \u0301ß/|\n",
        "it'sun| e\u0301x| a| b|\n\n\n      | |1|2|3|4| `$|\t。|x| I'mAN| <b",
    ),
    "falcon": (
        "row|  | |123|45| I|'|LL| x|_|y|.|z|\r\n\n | 中文é한ab| \u0301|ß|/|\n",
        "it|'|sun| e|\u0301|x| a| b|\n\n\n      | |123|4| |`$|\t|。|x| I|'|mAN| |<|b",
    ),
    "superbpe": (
        "row   |12|345| I'LL x_y.z\r\n\n  中文é한ab \u0301ß/\n",
        "it'sun e\u0301x a b\n\n\n       |1|234| `$\t。x I'mAN <b",
    ),
    "tekken": (
        "row|  | |1|2|3|4|5| I|'LL| x|_y|.z|\r\n\n| | 中文é한ab| \u0301ß|/\n",
        "it|'sun| e\u0301x| a| b|\n\n\n|      | |1|2|3|4| `$|\t|。x| I|'m|AN| <|b",
    ),
    "qwen35": (
        "row|  | |1|2|3|4|5| I|'LL| x|_y|.z|\r\n\n| | 中文é한ab| \u0301ß|/\n",
        "it|'s|un| e\u0301x| a| b|\n\n\n|      | |1|2|3|4| `$|\t|。x| I|'m|AN| <|b",
    ),
    "ufakzeka": (
        "row|  | |1|2|3|4|5| I|'LL| x|_y|.z|\r\n\n| | 中文é한ab| \u0301|ß|/\n",
        "it|'sun| e|\u0301x| a| b|\n\n\n|      | |1|2|3|4| `$|\t|。x| I|'mAN| <|b",
    ),
    "laguna": (
        "row|  | |1|2|3|4|5| I|'LL| x|_y|.z|\r|\n\n| | 中文é한ab| \u0301|ß|/|\n",
        "it|'s|un| e|\u0301x| a| b|\n\n\n|      | |1|2|3|4| `$|\t|。x| I|'m|AN| <|b",
    ),
    "minicpm5": (
        "row|   |123|45| I|'LL| x|_y|.z|\r\n\n| | 中文é한ab| \u0301|ß|/\n",
        "it|'s|un| e|\u0301x| a| b|\n\n\n|       |123|4| `$|\t|。x| I|'m|AN| <|b",
    ),
    "seed-coder": (
        "row|  | |1|2|3|4|5| I|'LL| x|_y|.z|\r\n\n| | 中文é한ab| \u0301|ß|/|\n",
        "it|'s|un| e|\u0301x| a| b|\n\n\n|      | |1|2|3|4| `$|\t|。x| I|'m|AN| <|b",
    ),
    "exaone-moe": (
        "row|  | |1|2|3|4|5| I|'LL| x|_y|.z|\r\n\n| | 中文é한ab| \u0301|ß|/\n",
        "it|'s|un e\u0301x a b|\n\n\n|      | |1|2|3|4| `$|\t|。x I|'m|AN| <|b",
    ),
    "jais-2": (
        "row|  | |123|45| I|'LL| x|_y|.z|\r\n\n| | 中文é한ab| \u0301|ß|/\n",
        "it|'s|un| e|\u0301x| a| b|\n\n\n|    |  | |123|4| `$|\t|。x| I|'m|AN| <|b",
    ),
    "chameleon": (
        "row|  | |1|2|3|4|5| I|'|LL| x|_|y|.|z|\r|\n|\n|  |中文é한ab| \u0301|ß|/|\n",
        "it|'|sun| e|\u0301|x| a| b|\n|\n|\n|    |  | |1|2|3|4| |`|$|\t|。|x| I|'|mAN| |<|b",
    ),
    "deepseek-coder": (
        "row|   |1|2|3|4|5| I|'|LL| x|_|y|.|z|\r|\n|\n| | |中文|é|한|ab| \u0301|ß|/|\n",
        "it|'|sun| e|\u0301|x| a| b|\n|\n|\n|       |1|2|3|4| `$|\t|。|x| I|'|mAN| <|b",
    ),
    "deepseek-llm": (
        "row|   |12345| I|'|LL| x|_|y|.|z|\r|\n|\n|  |中文|é|한|ab| \u0301|ß|/|\n",
        "it|'|sun| e|\u0301|x| a| b|\n|\n|\n|       |1234| `$|\t|。|x| I|'|mAN| <|b",
    ),
    "spark2_5": (
        "row|   |1|2|3|4|5| I|'LL| x|_y|.z|\r|\n|\n|  |中文|é한ab| \u0301ß|/|\n",
        "it|'sun| e\u0301x| a| b|\n|\n|\n|       |1|2|3|4| `$|\t|。|x| I|'mAN| <|b",
    ),
    "youtu": (
        "row|  | |1|2|3|4|5| I'LL| x|_y|.z|\r\n\n|  |中文|é|한|ab| \u0301ß|/\n",
        "it's|un| e\u0301x| a| b|\n\n\n|      | |1|2|3|4| `$|\t|。|x| I'm|AN| <|b",
    ),
    "kimi-k2": (
        "row|  | |123|45| I'LL| x|_y|.z|\r\n\n| | |中文|é한ab| \u0301ß|/\n",
        "it's|un| e\u0301x| a| b|\n\n\n|      | |123|4| `$|\t|。x| I'm|AN| <|b",
    ),
    "afmoe": (
        "row|   |12|345| I|'LL| x|_y|.z|\r\n\n|  |中文|é|한|ab| \u0301ß|/\n",
        "it|'sun| e\u0301x| a| b|\n\n\n|       |1|234| `$|\t|。|x| I|'mAN| <|b",
    ),
}


def byte_level(*before: pre_tokenizers.PreTokenizer, use_regex: bool) -> Any:
    """What byte-level tokenizers end with, after other pre-tokenizers."""
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)
    return pre_tokenizers.Sequence([*before, last])


def read_by_transformers() -> Any:
    """A byte-level tokenizer that splits as GPT-2 does, whatever its file says."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def split(pre_tokenizer: Any, text: str) -> str:
    return "|".join(text[start:end] for _, (start, end) in pre_tokenizer.pre_tokenize_str(text))


@pytest.mark.parametrize("kinds", PIECES)
def test_each_type_splits_text_as_in_llama_cpp(kinds):
    for kind in kinds.split():
        tokenizer = read_by_transformers()
        split_as_stated(tokenizer, kind, "m")
        found = [split(tokenizer.backend_tokenizer.pre_tokenizer, text) for text in TEXTS]
        assert found == list(PIECES[kinds]), kind


def test_every_type_is_tested():
    assert {kind for kinds in PIECES for kind in kinds.split()} == set(PATTERNS)
    assert set(GGUF_PRE_TOKENIZER_SPLITS) | WHOLE_WORDS | BEGINS_WITH_BOS <= set(PATTERNS)


@pytest.mark.parametrize(
    ("kind", "by_hand"),
    [
        ("smollm", byte_level(pre_tokenizers.Digits(individual_digits=True), use_regex=True)),
        ("starcoder", byte_level(pre_tokenizers.Digits(individual_digits=True), use_regex=True)),
        ("gpt-2", pre_tokenizers.ByteLevel(add_prefix_space=False)),
        *(
            (kind, byte_level(pre_tokenizers.Split(Regex(pattern), "isolated"), use_regex=False))
            for kind, pattern in GGUF_PRE_TOKENIZER_SPLITS.items()
        ),
    ],
)
def test_types_that_other_libraries_define(kind, by_hand, seeded_text):
    tokenizer = read_by_transformers()
    split_as_stated(tokenizer, kind, "m")
    found = tokenizer.backend_tokenizer.pre_tokenizer
    for text in (*TEXTS, seeded_text):
        assert found.pre_tokenize_str(text) == by_hand.pre_tokenize_str(text)


@pytest.fixture(scope="module")
def seeded_text() -> str:
    """Ten thousand characters in which every kind of character follows every other."""
    draw = random.Random(0)
    return "".join(
        draw.choices("ab'sTdLMx019½Ⅳ  \t\n\r\u00a0\u3000_.,(/$`é한中ーßǅ\u0301א١", k=10_000)
    )


def test_the_type_of_a_file_is_in_the_tokenizer_and_its_fingerprint(workspace, tmp_path):
    read, kinds = {}, ("gpt-2", "smollm", "llama-bpe", "tekken")
    for kind in kinds:
        spec = spec_of(write_gguf(tmp_path / f"{kind}.gguf", pre=kind), "gguf")
        checkpoint = find_checkpoint(spec, workspace, "tiny")
        tokenizer = load_tokenizer(checkpoint, spec)
        backend = tokenizer.library.backend_tokenizer
        named = next(kinds for kinds in PIECES if kind in kinds.split())
        assert split(backend.pre_tokenizer, TEXTS[0]) == PIECES[named][0]
        # what else llama.cpp's type decides
        assert backend.model.ignore_merges == (kind in WHOLE_WORDS)
        assert tokenizer.bos == (0 if kind in BEGINS_WITH_BOS else None)
        read[kind] = tokenizer_fingerprint(checkpoint, spec, workspace)
    assert len(set(read.values())) == len(kinds)


def test_a_file_without_a_type_is_split_as_llama_cpp_does_and_says_so(workspace, tmp_path, capsys):
    spec = spec_of(write_gguf(tmp_path / "m.gguf", pre=None), "gguf")
    tokenizer = load_tokenizer(find_checkpoint(spec, workspace, "tiny"), spec)
    default = next(pieces for kinds, pieces in PIECES.items() if "default" in kinds)
    assert split(tokenizer.library.backend_tokenizer.pre_tokenizer, TEXTS[1]) == default[1]
    assert capsys.readouterr().err.count("names no pre-tokenizer") == 1


@pytest.mark.parametrize("beside", ["tokenizer.json", "*.json"])
def test_a_tokenizer_beside_a_file_is_not_read(beside, workspace, tmp_path):
    """It has other tokens, and begins no text with BOS."""
    (folder := tmp_path / "other").mkdir()
    make_tokenizer(folder, bos=False)
    spec = spec_of(write_gguf(tmp_path / "m.gguf", bos=True), "gguf")
    for file in folder.glob(beside):
        shutil.copy(file, tmp_path)
    tokenizer = load_tokenizer(find_checkpoint(spec, workspace, "tiny"), spec)
    assert tokenizer.bos == 0 and tokenizer.library("ab").input_ids == [0, 4]


def test_an_unknown_type_needs_a_tokenizer(workspace, tmp_path):
    file = write_gguf(tmp_path / "m.gguf", pre="of-tomorrow", words=400)
    with refuses("unknown-pre-tokenizer", "of-tomorrow"):
        find_checkpoint(spec_of(file, "gguf"), workspace, "tiny")
    source = {"kind": "gguf", "path": str(file), "tokenizer": str(tmp_path / "none")}
    with refuses("no-tokenizer", str(tmp_path / "none")):
        find_checkpoint(spec_of(file, source=source), workspace, "tiny")

    def given(name: str) -> tuple[Any, str]:
        (folder := tmp_path / name).mkdir()
        make_tokenizer(folder, bos=name == "first")
        spec = spec_of(file, source=source | {"tokenizer": str(folder)})
        checkpoint = find_checkpoint(spec, workspace, "tiny")
        text = "row  12"
        expected = AutoTokenizer.from_pretrained(folder)(text).input_ids
        assert load_tokenizer(checkpoint, spec).library(text).input_ids == expected
        return checkpoint, tokenizer_fingerprint(checkpoint, spec, workspace)

    first, second = given("first"), given("second")
    # another tokenizer is another checkpoint: nothing cached of the first is used
    assert first[0].revision != second[0].revision and first[1] != second[1]
