"""The gap by kind of text across two tokenizers: an oracle that counts bytes, not characters."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sql_samples import write_spans
from tiny_models import make_tokenizer

from extract.checkpoints import find_checkpoint
from extract.tokenization import DocumentTokenizer, load_tokenizer
from warehouse.paths import Workspace
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import load_problem
from warehouse.sql.dataframes import cookbook

TEXTS = (
    "The café serves crème brûlée, naïve and hot: 12.50 € (or 13,00 $). Ångström – “quoted”…\n",
    "Straße ünder Ölberg 7; 東京タワー は 333 m, мир, emoji 👩🏽‍🚀🙂 and a ﬂag 🇫🇷!\n"
    "\n\tif (x_1 != y[2]) { return; }\n",
    "see https://example.org/päth?q=ä&b=2#frag or www.größe.de/a_b, then 2026-11-27 at "
    "05:10\u00a0UTC.",
    "plain words and plain words again, z = {a: [1, 2]} and e\u0301 combined; क्षत्रिय ends here 42",
)


def byte_lengths(tokenizer: DocumentTokenizer, ids: Sequence[int]) -> list[int]:
    """Bytes of each token: of a byte-level vocabulary each character is one byte."""
    byte_level = "ByteLevel" in tokenizer.library.backend_tokenizer.to_str()
    pieces = tokenizer.library.convert_ids_to_tokens(list(ids))
    if byte_level:
        return [len(piece) for piece in pieces]
    return [
        1 if piece.startswith("<0x") else len(piece.replace("▁", " ").encode()) for piece in pieces
    ]


def kind_of(text: str, start: int, end: int, by: str, first_byte: int) -> str:
    if by == "position":
        return f"from byte {1 << (first_byte.bit_length() - 1) if first_byte else 0}"
    space = " \t\n\r\f"
    part = text[start:end]
    if not part.strip(space):
        return "white space"
    before, after = start, end
    while before and text[before - 1] not in space:
        before -= 1
    while after < len(text) and text[after] not in space:
        after += 1
    if "://" in text[before:after] or "www." in text[before:after]:
        return "URL"
    if not part.isascii():
        return "non-ASCII"
    for name, characters in (
        ("number", "0123456789"),
        ("code", r"{}()[]<>=;_`$\|/*#@&~^"),
        ("word", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
    ):
        if any(each in characters for each in part):
            return name
    return "punctuation"


def expected(scored: Sequence[Sequence[list[tuple[int, int, float]]]], by: str) -> dict[str, Any]:
    """Kind → its row, of each model's tokens in each text: first byte, end, bits."""
    found: dict[str, list[tuple[int, float, float]]] = defaultdict(list)
    for text, *models in zip(TEXTS, *scored, strict=True):
        starts = {len(text[:n].encode()): n for n in range(len(text) + 1)}
        shared = {end for _, end, _ in models[0]} & {end for _, end, _ in models[1]}
        ends = sorted(shared & starts.keys())
        first = [tokens[0][0] for tokens in models]
        spans = list(zip([max(first), *ends], ends, strict=False))
        own: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        for begin, end in spans if first[0] == first[1] else spans[1:]:
            kind = kind_of(text, starts[begin], starts[end], by, begin)
            own[kind][0] += end - begin
            for number, tokens in enumerate(models, 1):
                own[kind][number] += sum(b for at, to, b in tokens if begin <= at and to <= end)
        for kind, sums in own.items():
            found[kind].append(tuple(sums))  # type: ignore[arg-type]
    rows = {}
    for kind, sums in found.items():
        size, a, b = np.array(sums).T
        gap = (a.sum() - b.sum()) / size.sum()
        error = None
        if len(size) > 1:
            left = a - b - gap * size
            error = math.sqrt(len(size) / (len(size) - 1) * (left**2).sum()) / size.sum()
        rows[kind] = (size.sum(), len(size), a.sum() / size.sum(), b.sum() / size.sum(), gap, error)
    return rows


def trained(folder: Path) -> list[tuple[DocumentTokenizer, bool]]:
    """Byte-level BPE, and BPE over characters that falls back to bytes; which scores token 0."""
    from tokenizers import Tokenizer, decoders, models, normalizers, trainers
    from transformers import PreTrainedTokenizerFast

    make_tokenizer(folder, bos=False)
    library = PreTrainedTokenizerFast.from_pretrained(folder)
    trainer = trainers.BpeTrainer(vocab_size=150, show_progress=False)
    core = Tokenizer(models.BPE(byte_fallback=True))
    core.normalizer = normalizers.Replace(" ", "▁")
    core.decoder = decoders.ByteFallback()
    core.train_from_iterator(["▁plain▁words▁and▁café▁serves▁2026▁12▁return▁then▁www"] * 9, trainer)
    known = core.get_vocab()
    bytes_ = [f"<0x{n:02X}>" for n in range(256)]
    vocabulary = {piece: n for n, piece in enumerate(dict.fromkeys([*bytes_, *sorted(known)]))}
    merges = [
        (left, right)
        for joined in sorted(known, key=known.__getitem__)
        for left, right in [(joined[:at], joined[at:]) for at in range(1, len(joined))][:1]
        if left in known and right in known
    ]
    core.model = models.BPE(vocab=vocabulary, merges=merges, byte_fallback=True)
    other = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<0x00>")
    spec = ModelSpec(
        full_id="a/b", family="f", bos="never", source={"kind": "local", "path": "nowhere"}
    )
    return [
        (DocumentTokenizer(each, spec), index == 1) for index, each in enumerate([library, other])
    ]


def published(workspace: Workspace) -> list[tuple[DocumentTokenizer, bool]]:
    """Those of SmolLM2 and Gemma 3; Gemma's BOS lets the first token be scored."""
    problem = load_problem("minilong", workspace)
    specs = [problem.model(name) for name in ("smollm2-135m", "gemma3-270m")]
    found = [load_tokenizer(find_checkpoint(s, workspace, problem.name), s) for s in specs]
    return [(each, each.bos is not None) for each in found]


def write(workspace: Workspace, tokenizers: Sequence[tuple[DocumentTokenizer, bool]]) -> Any:
    """Store random log-probs of each text in both tokenizers' tokens; returns bytes and bits."""
    rng, scored, spans = np.random.default_rng(0), [], {}
    for model, (tokenizer, scores_first) in zip("ab", tokenizers, strict=True):
        own, spans[model] = [], []
        for number, text in enumerate(TEXTS):
            encoded = tokenizer.encode(text)
            stops = np.cumsum(byte_lengths(tokenizer, encoded.ids))
            assert stops[-1] == len(text.encode())
            # the last text is scored from its second token on by both
            first = 0 if scores_first and number < 3 else 1
            logprobs = -rng.exponential(3.0, len(encoded.ids)).astype(np.float32)
            starts, bits = [0, *stops[:-1]], -logprobs.astype(float) / math.log(2)
            rows = list(zip(starts, stops, bits, strict=True))[first:]
            own.append([(int(at), int(to), float(b)) for at, to, b in rows])
            places = zip(encoded.char_start, encoded.char_end, logprobs.tolist(), strict=True)
            spans[model].append(list(places)[first:])
        scored.append(own)
    write_spans(workspace, TEXTS, spans)
    return scored


def check(workspace: Workspace, tokenizers: Sequence[tuple[DocumentTokenizer, bool]]) -> None:
    scored = write(workspace, tokenizers)
    for by in ("kind", "position"):
        rows = cookbook(
            "kind_gap", problem="minilong", model_a="a", model_b="b", condition="full", by=by
        ).to_pylist()
        wanted = expected(scored, by)
        assert {row["kind"] for row in rows} == wanted.keys()
        for row in rows:
            kind, *values = row.values()
            assert (values[-1] is None) == (wanted[kind][-1] is None)
            for value, right in zip(values, wanted[kind], strict=True):
                assert right is None or value == pytest.approx(right, rel=1e-9), kind
        if by == "kind":
            assert wanted.keys() >= {"word", "non-ASCII", "URL", "number", "code"}


def test_trained_tokenizers(workspace, tmp_path):
    check(workspace, trained(tmp_path))


@pytest.mark.models
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_published_tokenizers(workspace, real_workspace, monkeypatch):
    tokenizers = published(real_workspace)
    monkeypatch.setenv("TOKENMART_HOME", str(workspace.root))
    check(workspace, tokenizers)
