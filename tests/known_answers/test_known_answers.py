"""From text to `metric_values`, with models whose predictions are formulas."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from checkpoint_samples import spec_of
from click.testing import CliRunner
from dbt_harness import Warehouse
from transformers import PreTrainedTokenizerFast

from extract.checkpoints import find_checkpoint
from extract.cli import extract
from extract.models.loading import Loading, load_engine
from tests.known_answers.models import ALPHABET, MODELS, Known, V, write_tokenizer
from warehouse.probes.context import full_requests
from warehouse.probes.lookup import RetrievalProbe, excerpt_starts, word_start
from warehouse.store.token_files import STEP_NATS

# the first test waits for extraction and build
pytestmark = pytest.mark.timeout(900)

LAG = 20
WINDOWS = {"near": (8, 8), "middle": (24, 7), "wide": (30, 16)}
"""Name → context and stride."""
EXCERPT = {"excerpts": 3, "excerpt_characters": 9, "answer_characters": 6,
           "min_gap_characters": 20, "seed": 1}  # fmt: skip
REFERENCE = "bigram"
METRICS = (
    "perplexity", "entropy", "rank", "context_gain", "longppl", "retrieval_gain", "divergence",
)  # fmt: skip


def stored(values: Any, column: str = "logprob") -> Any:
    """Formulas at the precision of the files, from which no float32 error moves them."""
    step = STEP_NATS[column]
    steps = np.asarray(values) / step
    assert np.abs(steps - np.floor(steps) - 0.5).min() * step > 8e-7
    return np.round(steps) * step


def texts(tokenizer: Any) -> list[str]:
    """Documents in which the token `LAG` back often comes next, with other text in between."""
    rng, found = np.random.default_rng(3), []
    while len(found) < 3:
        block = "".join(rng.choice([*ALPHABET], size=15))
        repeated = block * 4 + "".join(rng.choice([*ALPHABET], size=12)) + block
        count, twice = (len(tokenizer(text).input_ids) for text in (block, block * 2))
        if count == LAG + 1 and twice == 2 * LAG + 2 and not repeated[0].isspace():
            found.append(repeated)
    return found


@dataclass(frozen=True)
class Row:
    """A token as the formula has it."""

    logprob: float
    entropy: float
    rank: int
    top: float


def row(logprobs: Any, target: int) -> Row:
    """Statistics of one prediction."""
    own = logprobs[target]
    entropy = float(-(np.exp(logprobs) * logprobs).sum())
    rank = 1 + int((logprobs > own + 1e-9).sum())
    return Row(float(own), entropy, rank, float(logprobs.max()))


@dataclass(frozen=True)
class Document:
    """A text in tokens: ids, spans in characters, and bytes from the first scored token on."""

    ids: list[int]
    spans: list[tuple[int, int]]
    text: str


class Expected:
    """What a model must predict in every condition of every document."""

    def __init__(self, known: Known, documents: Sequence[Document]) -> None:
        self.known, self.documents = known, documents
        self.bos = [0] if known.bos else []

    def behind(self, ids: Sequence[int], target: int) -> Row:
        """The row of a token behind an input."""
        return row(self.known.logprobs(ids)[-1], target)

    @cache  # noqa: B019 - of a module's fixture
    def full(self, doc: int) -> dict[int, Row]:
        """Position → row."""
        ids = self.documents[doc].ids
        return {
            at: self.behind(self.bos + ids[:at], ids[at])
            for at in range(1 - len(self.bos), len(ids))
        }

    @cache  # noqa: B019
    def window(self, doc: int, context: int, stride: int) -> dict[int, Row]:
        """Of LongPPL's procedure from its second window on: blocks begin at multiples of it."""
        sequence = self.bos + self.documents[doc].ids
        found = {}
        for at in range(context + stride, len(sequence)):
            start = (at - context) // stride * stride
            found[at - len(self.bos)] = self.behind(sequence[start:at], sequence[at])
        return found

    def excerpt(self, doc: int, start: int, position: int, with_document: bool) -> Row:
        """A token of an answer behind the document, if it is there, and the excerpt."""
        ids = self.documents[doc].ids
        before = ids if with_document else []
        return self.behind(self.bos + before + ids[start:position], ids[position])


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("known")
    return {name: known.write(folder / name) for name, known in MODELS.items()}


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[Document]:
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder, False)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    found = []
    for text in texts(tokenizer):
        batch = tokenizer(text, return_offsets_mapping=True)
        found.append(Document(batch.input_ids, batch.offset_mapping, text))
    return found


@pytest.fixture(scope="module")
def built(checkpoints, documents, tmp_path_factory) -> Warehouse:
    """Two problems, of models with BOS and without, extracted and built."""
    folder = tmp_path_factory.mktemp("path")
    (folder / "corpus.json").write_text(json.dumps([each.text for each in documents]))
    (folder / "data").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKENMART_DATA", str(folder / "data"))
        for name in ("bos", "plain"):
            probes: list[dict[str, Any]] = [
                {"kind": "full"},
                *({"kind": "window", "name": name, "context": size[0], "stride": size[1]}
                  for name, size in WINDOWS.items()),
                {"kind": "retrieval", **EXCERPT},
            ]  # fmt: skip
            if name == "bos":
                probes.append({"kind": "divergence", "reference": f"known/{REFERENCE}"})
            models = [
                {"full_id": f"known/{model}", "family": model, "dtype": "float32", "source": {
                    "kind": "gguf" if known.kind == "gguf" else "local",
                    "path": str(checkpoints[model])}}
                for model, known in MODELS.items() if known.bos == (name == "bos")
            ]  # fmt: skip
            path = folder / f"{name}.yml"
            path.write_text(yaml.safe_dump({
                "name": name, "title": "Known answers", "models": models, "probes": probes,
                "documents": {"kind": "json", "path": str(folder / "corpus.json")},
            }))  # fmt: skip
            done = CliRunner().invoke(extract, ["--problem", str(path), "--device", "cpu"])
            assert done.exit_code == 0, done.output
    warehouse = Warehouse(folder / "data", folder / "tokenmart.duckdb")
    selected = [f"+{metric}+" for metric in METRICS]
    warehouse.run("--vars", "{grids: true}", "--select", *selected, "+position_profile")
    return warehouse


@pytest.fixture(scope="module")
def expected(documents) -> dict[str, Expected]:
    return {name: Expected(known, documents) for name, known in MODELS.items()}


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_those_of_the_formula(name, built, expected):
    own = expected[name]
    found = built.rows(
        "select condition, doc_id, position, context_tokens, logprob, entropy, rank,"
        f" top_logprob from tokens where model_id = 'known--{name}'"
    )
    wanted: dict[str, int] = {"full": 0, **dict.fromkeys(WINDOWS, 0)}
    for doc in range(len(own.documents)):
        wanted["full"] += len(own.full(doc))
        for window, size in WINDOWS.items():
            wanted[window] += len(own.window(doc, *size))
    counted = dict.fromkeys(wanted, 0)
    rows, scores = [], []
    for condition, doc, position, context, *score in found:
        if condition in WINDOWS:
            rows.append(own.window(doc, *WINDOWS[condition])[position])
        elif condition.startswith("retrieval"):
            with_document = condition == "retrieval_with"
            start = position - context + len(own.documents[doc].ids) * with_document
            rows.append(own.excerpt(doc, start, position, with_document))
        else:
            rows.append(own.full(doc)[position])
        if condition in counted:
            counted[condition] += 1
        scores.append(score)
    want = np.array([[each.logprob, each.entropy, each.rank, each.top] for each in rows])
    for at, column in ((0, "logprob"), (1, "entropy"), (3, "top_logprob")):
        want[:, at] = stored(want[:, at], column)
    np.testing.assert_allclose(np.array(scores), want, atol=1e-6, rtol=0)
    assert counted == wanted


@pytest.mark.parametrize("name", MODELS)
def test_scores_before_they_are_stored(name, checkpoints, documents, expected, workspace):
    known, path = MODELS[name], checkpoints[name]
    spec = spec_of(path, "gguf" if known.kind == "gguf" else "local")
    engine = load_engine(Loading(spec, find_checkpoint(spec, workspace, "k"), "cpu", "float32"))
    ids = np.array(documents[0].ids, dtype=np.int32)
    (result,) = engine.score(full_requests(ids, 0 if known.bos else None))
    want = expected[name].full(0).values()
    for column, values in {
        "logprob": [each.logprob for each in want],
        "top_logprob": [each.top for each in want],
        "entropy": [each.entropy for each in want],
        "rank": [each.rank for each in want],
    }.items():
        assert getattr(result.scores, column) == pytest.approx(values, abs=2e-6), column


def full_metrics(own: Expected) -> dict[str, float]:
    """Of every token in its whole context."""
    rows = [each for doc in range(len(own.documents)) for each in own.full(doc).values()]
    nll = -sum(stored(each.logprob) for each in rows)
    unscored = len(own.documents) * (not own.known.bos)
    texts = [each.text.encode() for each in own.documents]
    first = [len(each.text[each.spans[1][0] :].encode()) for each in own.documents]
    size = sum(first) if unscored else sum(map(len, texts))
    return {
        "perplexity/micro": math.exp(nll / len(rows)),
        "perplexity/bits_per_byte": nll / math.log(2) / size,
        "entropy/entropy": float(np.mean([stored(each.entropy, "entropy") for each in rows])),
        "rank/top_1": float(np.mean([each.rank == 1 for each in rows])),
        "rank/reciprocal_rank": float(np.mean([1 / each.rank for each in rows])),
    }


def window_metrics(own: Expected, name: str) -> dict[str, float | None]:
    """Gains over a window, and LongPPL's key tokens, pieces of a character together."""
    gains, shorts, keys = [], [], []
    for doc, document in enumerate(own.documents):
        full, short = own.full(doc), own.window(doc, *WINDOWS[name])
        nll = {at: -stored(row.logprob) for at, row in full.items()}
        gain = {at: nll[at] * -1 - stored(row.logprob) for at, row in short.items()}
        gains += gain.values()
        shorts += [-stored(row.logprob) for row in short.values()]
        key = {document.spans[at] for at in gain if gain[at] > 0.5 and nll[at] < 2}
        keys += [nll[at] for at in nll if document.spans[at] in key]
    long_ppl = math.exp(np.mean(keys)) if len(keys) >= 10 else None
    return {
        f"context_gain/mean@{name}": float(np.mean(gains)),
        f"context_gain/relative@{name}": sum(gains) / sum(shorts),
        f"longppl/alpha_0.5_beta_-2@{name}": long_ppl,
    }


def retrieval_metrics(own: Expected, places: dict[tuple[int, int], list[int]]) -> dict[str, float]:
    """Mean over excerpts of the gain of a token; `places` has start and scored positions."""
    gains, right = [], []
    for (doc, _), (start, *positions) in places.items():
        rows = [
            [own.excerpt(doc, start, at, with_document) for at in positions]
            for with_document in (True, False)
        ]
        nll = [-sum(stored(each.logprob) for each in side) for side in rows]
        top = [sum(each.rank == 1 for each in side) for side in rows]
        gains.append((nll[1] - nll[0]) / len(positions))
        right.append((top[0] - top[1]) / len(positions))
    return {
        "retrieval_gain/mean@retrieval": float(np.mean(gains)),
        "retrieval_gain/accuracy_gain@retrieval": float(np.mean(right)),
    }


def divergence_metrics(own: Expected, reference: Expected) -> dict[str, float]:
    """Mean KL of both predictions, of each direction."""
    forth, back = [], []
    for document in own.documents:
        ids = own.bos + document.ids[:-1]
        p, q = reference.known.logprobs(ids), own.known.logprobs(ids)
        forth += ((np.exp(p)) * (p - q)).sum(-1).tolist()
        back += ((np.exp(q)) * (q - p)).sum(-1).tolist()
    found = {"mean": float(np.mean(forth)), "reverse": float(np.mean(back))}
    return {f"divergence/{variant}@divergence": value for variant, value in found.items()}


def excerpt_places(documents: Sequence[Document]) -> dict[tuple[int, int], list[int]]:
    """(document, segment) → first token of the excerpt, then positions of its answer."""
    sizes = (0, EXCERPT["excerpt_characters"])
    sizes += (sizes[1] + EXCERPT["answer_characters"],)
    probe = RetrievalProbe(kind="retrieval", **EXCERPT)
    found = {}
    for doc, document in enumerate(documents):
        begins = [start for start, _ in document.spans]
        for segment, start in enumerate(excerpt_starts(len(document.text), probe)):
            marks = [word_start(document.text, start + size) for size in sizes]
            first, answer, end = (bisect_left(begins, mark) for mark in marks)
            room = len(document.text) - marks[2]
            if first < answer < end and room >= EXCERPT["min_gap_characters"]:
                found[doc, segment] = [first, *range(answer, end)]
    return found


@pytest.mark.parametrize("name", MODELS)
def test_metric_values_are_those_of_the_formula(name, built, expected, documents):
    own = expected[name]
    want: dict[str, float | None] = {**full_metrics(own)}
    for window in WINDOWS:
        want |= window_metrics(own, window)
    want |= retrieval_metrics(own, excerpt_places(documents))
    if own.known.bos:
        want |= divergence_metrics(own, expected[REFERENCE])
    found = {
        f"{metric}/{variant}": value
        for metric, variant, value in built.rows(
            f"select metric, variant, value from metric_values where model_id = 'known--{name}'"
        )
    }
    # logits of a capped model are 30 times a tanh in float32
    near = 5e-6 if own.known.kind == "gemma3" else 1e-6
    for key, value in want.items():
        assert found[key] == (value if value is None else pytest.approx(value, abs=near)), key


@pytest.mark.parametrize("name", MODELS)
def test_a_profile_counts_each_token_once_in_the_band_of_its_position(name, built, expected):
    """Bands of 0 to 31, 32 to 63, 64 to 127; of a window, the tokens that it scored."""
    own = expected[name]
    want: dict[tuple[str, int], list[tuple[float, float, float, float]]] = {}
    for doc in range(len(own.documents)):
        full = own.full(doc)
        sides = {"full": full} | {
            window: own.window(doc, *size) for window, size in WINDOWS.items()
        }
        for condition, short in sides.items():
            for at in short:
                row = full[at]
                want.setdefault((condition, 0 if at < 32 else 32 if at < 64 else 64), []).append(
                    (-stored(row.logprob), -stored(short[at].logprob),
                     stored(row.entropy, "entropy"), row.rank == 1)
                )  # fmt: skip
    found = {
        row[:2]: row[2:]
        for row in built.rows(
            "select condition, position_from, tokens, documents, nll, short_nll, gain, entropy,"
            f" accuracy from position_profile where model_id = 'known--{name}'"
        )
    }
    assert found.keys() == want.keys()
    for key, rows in want.items():
        tokens, documents, *means = found[key]
        nll, short, entropy, accuracy = np.mean(rows, axis=0)
        assert (tokens, documents) == (len(rows), len(own.documents)), key
        pair = [None, None] if key[0] == "full" else [short, short - nll]
        assert means == pytest.approx([nll, *pair, entropy, accuracy], abs=1e-6), key


def test_what_can_be_said_without_a_table(built):
    """Closed forms: V for the uniform model, no gain where the context has no part."""
    value = {
        (metric, variant, model.removeprefix("known--")): value
        for metric, variant, model, value in built.rows(
            "select metric, variant, model_id, value from metric_values"
        )
    }
    assert value["perplexity", "micro", "uniform"] == pytest.approx(V, rel=2e-5)
    for name in ("uniform", "unigram", "bigram"):
        for window in WINDOWS:
            assert value["context_gain", f"mean@{window}", name] == 0
            assert value["longppl", f"alpha_0.5_beta_-2@{window}", name] is None
    assert value["divergence", "mean@divergence", REFERENCE] == 0
    # behind 24 tokens of context and more, what stands 20 back is visible; behind 8 it isn't
    assert value["context_gain", "mean@wide", "distance"] == 0
    assert value["context_gain", "mean@middle", "distance"] == 0
    assert value["context_gain", "mean@near", "distance"] > 1
    # a window of 16 tokens shows 15 others: one that looks 20 back finds the same as one 15 back
    for metric in ("perplexity", "entropy"):
        assert len({v for k, v in value.items() if k[0] == metric and k[2] in ("window", "near")
                    and k[1] in ("micro", "entropy")}) == 1  # fmt: skip
    assert value["perplexity", "micro", "gguf"] == value["perplexity", "micro", "distance"]
