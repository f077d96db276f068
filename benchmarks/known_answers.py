"""Models whose predictions are formulas (tests/known_answers), read by other programs.

Who gives the formula's value: transformers' forward pass, our engine, lm-evaluation-harness
(`loglikelihood_rolling`, whole and in windows of 24 tokens, and `loglikelihood` of the second part
of a text behind its first), and the package `longppl` (arXiv 2410.23771) with windows of 8 and 8
tokens. The suite compares our own LongPPL with the formula, through dbt. Float32; sums over three
texts.

    pip install --no-deps --target FOLDER longppl
    PYTHONPATH=FOLDER python benchmarks/known_answers.py --write
"""

from __future__ import annotations

import argparse
import logging
import math
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from tests.known_answers.models import MODELS, Known  # noqa: E402
from tests.known_answers.test_known_answers import WINDOWS, Document, Expected, texts  # noqa: E402
from warehouse.files import write_whole  # noqa: E402

PAGE = Path(__file__).with_suffix(".md")
CONTEXT, STRIDE = WINDOWS["near"]
MOST = 24
"""Tokens of a window of the harness."""

ALPHA, BETA = 0.5, -2.0
NEAR = 1e-6
"""Relative: sums of some hundred float32 log-probabilities. Gemma's capped logits: five times."""


def nats(known: Known, before: list[int], scored: list[int]) -> float:
    """NLL of tokens behind others, by formula."""
    rows = known.logprobs(before + scored)[len(before) - 1 : -1]
    return -float(rows[np.arange(len(scored)), scored].sum())


def window_nats(known: Known, prefix: int, ids: list[int], most: int) -> float:
    """Disjoint windows of `most` tokens behind one token; the last one reaches back instead."""
    total = nats(known, [prefix], ids[:most])
    for start in range(most, len(ids), most):
        end = min(start + most, len(ids))
        total += nats(known, ids[end - most - 1 : start], ids[start:end])
    return total


def long_ppl(expected: Expected, bos: list[int]) -> tuple[float, int]:
    """LongPPL and key tokens, found by the model itself: pieces of a character together.

    Keys are found behind the model's BOS, losses are those behind `bos`.
    """
    keys: list[float] = []
    for doc, document in enumerate(expected.documents):
        full, short = expected.full(doc), expected.window(doc, CONTEXT, STRIDE)
        spans = {
            document.spans[at]
            for at in short
            if full[at].logprob - short[at].logprob > ALPHA and -full[at].logprob < -BETA
        }
        logs = expected.known.logprobs(bos + document.ids)[len(bos) - 1 + (not bos) :]
        first = 0 if bos else 1
        keys += [
            -float(logs[at - first, token])
            for at, token in enumerate(document.ids)
            if at >= first and document.spans[at] in spans
        ]
    return (math.exp(np.mean(keys)), len(keys)) if keys else (math.nan, 0)


def package_long_ppl(model: Any, tokenizer: Any, documents: list[Document]) -> tuple[float, int]:
    """The same by the authors' package, documents pooled by their key tokens."""
    from longppl.longppl import compute_longppl

    results = [
        compute_longppl(
            document.text, model, model, tokenizer, tokenizer,
            trunc_len=CONTEXT, sliding_window=STRIDE, alpha=ALPHA, beta=BETA,
        )
        for document in documents
    ]  # fmt: skip
    counts = [each["n_key_token"] or 0 for each in results]
    logs = [math.log(each["longppl"]) if each["longppl"] else 0.0 for each in results]
    return (
        (math.exp(np.average(logs, weights=counts)), sum(counts)) if sum(counts) else (math.nan, 0)
    )


def measured(name: str, known: Known, folder: Path) -> Iterator[tuple[str, str, float, float]]:
    """(quantity, program, formula, value) of one model."""
    from checkpoint_samples import spec_of
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    from extract.checkpoints import find_checkpoint
    from extract.models.loading import Loading, load_engine
    from warehouse.paths import workspace_of
    from warehouse.probes.context import full_requests

    path = known.write(folder / name)
    harness = HFLM(pretrained=str(path), device="cpu", dtype="float32", batch_size=1)
    tokenizer, model = harness.tokenizer, harness.model
    documents = []
    plain = partial(tokenizer, add_special_tokens=False)
    for text in texts(plain):
        batch = plain(text, return_offsets_mapping=True)
        documents.append(Document(batch.input_ids, batch.offset_mapping, text))
    expected = Expected(known, documents)
    ids = [each.ids for each in documents]

    def asked(kind: str, arguments: list[tuple[Any, ...]], longest: int | None = None) -> float:
        harness._max_length = longest
        requests = [
            Instance(request_type=kind, doc={}, arguments=given, idx=number)
            for number, given in enumerate(arguments)
        ]
        logprobs = getattr(harness, kind)(requests, disable_tqdm=True)
        return -sum(each[0] if isinstance(each, tuple) else each for each in logprobs)

    whole = sum(-row.logprob for doc in range(len(ids)) for row in expected.full(doc).values())
    import torch

    forward = 0.0
    with torch.inference_mode():
        for tokens in ids:
            sequence = torch.tensor([expected.bos + tokens])
            logs = model(sequence).logits[0, :-1].double().log_softmax(-1)
            forward -= float(logs.gather(1, sequence[0, 1:, None]).sum())
    yield "NLL of the texts", "transformers", whole, forward
    spec = spec_of(path, "local")
    checkpoint = find_checkpoint(spec, workspace_of(folder), "k")
    engine = load_engine(Loading(spec, checkpoint, "cpu", "float32"))
    requests = [
        request
        for tokens in ids
        for request in full_requests(np.array(tokens, dtype=np.int32), 0 if known.bos else None)
    ]
    scores = sum(-float(each.scores.logprob.sum()) for each in engine.score(requests))
    yield "NLL of the texts", "Tokenmart", whole, scores
    rolling = [(each.text,) for each in documents]
    yield "NLL of the texts", "lm-eval", whole, asked("loglikelihood_rolling", rolling)
    prefix = harness.prefix_token_id
    first = expected.bos
    behind = sum(nats(known, [prefix], first + each) for each in ids)
    yield (
        "the same, and its first token behind BOS",
        "lm-eval",
        behind,
        asked("loglikelihood_rolling", rolling),
    )
    windows = sum(window_nats(known, prefix, first + each, CONTEXT) for each in ids)
    yield (
        f"the same in windows of {CONTEXT}",
        "lm-eval",
        windows,
        asked("loglikelihood_rolling", rolling, CONTEXT),
    )
    halves = [(each.text[:40], each.text[40:]) for each in documents]
    split = [harness._encode_pair(*both) for both in halves]
    second = sum(nats(known, before, behind) for before, behind in split)
    yield (
        "second part, with white space before it",
        "lm-eval",
        second,
        asked("loglikelihood", halves),
    )
    theirs, their_count = package_long_ppl(model, tokenizer, documents)
    keys, count = long_ppl(expected, expected.bos)
    yield "LongPPL", "longppl", keys, theirs
    if expected.bos:
        yield "the same, losses without BOS", "longppl", long_ppl(expected, [])[0], theirs
    yield "its key tokens", "longppl", count, their_count


def main() -> None:
    """Print the table, or write it beside this script."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--write", action="store_true", help="write known_answers.md")
    words = arguments.parse_args()
    logging.disable(logging.WARNING)
    programs = ("transformers", "lm_eval", "longppl", "torch")
    lines = [
        "# Known answers by other programs",
        "",
        "Written by `benchmarks/known_answers.py`; its docstring describes the columns. Equal: to"
        f" {NEAR:g} of the formula's value, for Gemma's capped logits {5 * NEAR:g}. Versions: "
        + ", ".join(f"{program} {version(program)}" for program in programs) + ".",
        "",
        "| model | quantity | program | formula | value | equal |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for name, known in MODELS.items():
            if known.kind == "gguf":
                continue
            for quantity, program, formula, value in measured(name, known, Path(folder)):
                near = 5 * NEAR if known.kind == "gemma3" else NEAR
                same = math.isnan(formula) and math.isnan(value)
                equal = same or abs(value - formula) <= near * abs(formula)
                shown = [f"{each:.9g}".replace("nan", "none") for each in (formula, value)]
                cells = [name, quantity, program, *shown, "yes" if equal else "**no**"]
                lines.append(f"| {' | '.join(cells)} |")
    if words.write:
        write_whole(PAGE, "\n".join(lines) + "\n")
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
