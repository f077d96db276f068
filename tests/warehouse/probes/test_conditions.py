"""Ladder, controls, needles and excerpts by character: what is read and what is scored."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from readings import reading_of

from warehouse.probes.context import (
    CopyProbe,
    FarProbe,
    HalvesProbe,
    LadderProbe,
    passage_starts,
    target_spans,
)
from warehouse.probes.lookup import (
    NeedleProbe,
    RetrievalProbe,
    excerpt_places,
    excerpt_starts,
    needles,
)
from warehouse.probes.request import DocumentTokens, Request

BOS = [None, 7]
LADDER = LadderProbe(kind="ladder", contexts=(8, 20, 40), targets=12, spans=3, slack=0.25)
CONTROLS: dict[str, Any] = {"controls": ("foreign", "shuffled", "tail"), "seed": 3, "excerpts": 4}
IN_TOKENS = RetrievalProbe(
    kind="retrieval", excerpt_tokens=6, answer_tokens=3, min_gap=20, **CONTROLS
)
IN_CHARACTERS = RetrievalProbe(
    kind="retrieval",
    excerpt_characters=40,
    answer_characters=20,
    min_gap_characters=80,
    **CONTROLS,
)
NEEDLE = NeedleProbe(kind="needle", depths=(0.1, 0.5, 0.9), rounds=3, min_characters=20)


def built(probe: Any, reading: DocumentTokens) -> dict[str, list[Request]]:
    """Requests by the condition's name."""
    return {condition.name: condition.build(reading) for condition in probe.conditions()}


def visible(request: Request, bos: int | None) -> list[int]:
    """The document tokens to the left of the first target."""
    seen = [*request.prefix[: request.prefix_length], *request.ids[: request.first_target]]
    assert bos is None or seen[0] == bos
    return seen[bos is not None :]


@pytest.mark.parametrize("bos", BOS)
@pytest.mark.parametrize("length", [20, 30, 47, 100])
def test_every_rung_scores_the_same_targets_after_its_context(length, bos):
    ids = np.arange(1000, 1000 + length, dtype=np.int32)
    rungs = built(LADDER, reading_of(ids, bos))
    places = {
        name: [p for request in requests for p in request.positions.tolist()]
        for name, requests in rungs.items()
        if requests
    }
    fitting = [context for context in LADDER.contexts if context + LADDER.targets <= length]
    assert list(places) == [f"ladder_{context}" for context in fitting]
    assert len({tuple(each) for each in places.values()}) == bool(fitting)
    for context in fitting:
        assert len(places[f"ladder_{context}"]) == LADDER.targets
        for request in rungs[f"ladder_{context}"]:
            assert ids[request.positions].tolist() == request.targets.tolist()
            first = request.positions[0]
            assert visible(request, bos) == ids[first - context : first].tolist()
            assert request.context_tokens[0] == context
            assert request.context_tokens[-1] < context * (1 + LADDER.slack)


def test_targets_are_spread_behind_the_longest_context_that_fits():
    assert target_spans(100, LADDER) == [(40, 44), (68, 72), (96, 100)]
    assert target_spans(51, LADDER) == [(20, 24), (33, 37), (47, 51)]
    assert target_spans(19, LADDER) == []
    single = LADDER.model_copy(update={"spans": 1})
    assert target_spans(100, single) == [(88, 100)]
    for length in range(20, 120):
        spans = target_spans(length, LADDER)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans)) and spans[-1][1] == length


@pytest.mark.parametrize("bos", BOS)
@pytest.mark.parametrize("probe", [IN_TOKENS, IN_CHARACTERS], ids=["tokens", "characters"])
def test_controls_ask_the_same_behind_something_else(probe, bos):
    ids = np.arange(1000, 1100, dtype=np.int32)
    reading = reading_of(ids, bos, foreign=np.arange(5000, 5100, dtype=np.int32))
    assert reading.foreign is not None
    found = built(probe, reading)
    assert list(found) == [
        f"retrieval_{each}" for each in ("with", "without", "foreign", "shuffled", "tail")
    ]
    prefixes = {
        "with": ids.tolist(),
        "without": [],
        "foreign": reading.foreign.ids.tolist(),
        "tail": ids[-20:].tolist(),
    }
    for name, prefix in prefixes.items():
        requests = found[f"retrieval_{name}"]
        assert len(requests) == 4
        for request, plain in zip(requests, found["retrieval_with"], strict=True):
            assert request.segment == plain.segment
            assert request.positions.tolist() == plain.positions.tolist()
            assert request.targets.tolist() == ids[request.positions].tolist()
            excerpt = plain.ids[: plain.first_target].tolist()
            seen = visible(request, bos)
            assert seen == prefix + excerpt
            assert request.context_tokens.tolist() == [
                len(seen) + index for index in range(len(request.positions))
            ]
            # scored tokens are never at the document's end
            assert not set(excerpt) & set(prefixes["tail"])
    shuffled = visible(found["retrieval_shuffled"][0], bos)[:100]
    assert shuffled != ids.tolist() and sorted(shuffled) == ids.tolist()


def test_a_shuffled_document_keeps_its_words_whole():
    text = "".join(f" w{index:02d}" for index in range(50))
    starts = np.arange(0, 200, 2, dtype=np.int32)
    ids = np.arange(100, dtype=np.int32)
    reading = DocumentTokens(ids, starts, starts + 2, text, None)
    probe = IN_TOKENS.model_copy(update={"controls": ("shuffled",)})
    (request, *_) = built(probe, reading)["retrieval_shuffled"]
    pairs = request.prefix.reshape(50, 2)
    assert (pairs[:, 0] % 2 == 0).all() and (pairs[:, 1] == pairs[:, 0] + 1).all()


def split(text: str, sizes: list[int]) -> DocumentTokens:
    """Tokens of these sizes in characters, over and over."""
    cuts = np.cumsum(np.resize(sizes, len(text)))
    ends = np.array([*cuts[cuts < len(text)], len(text)], dtype=np.int32)
    starts = np.array([0, *ends[:-1]], dtype=np.int32)
    return DocumentTokens(np.arange(len(ends), dtype=np.int32), starts, ends, text, None)


def words(text: str) -> DocumentTokens:
    """One token a word, its space included."""
    starts = np.array([i for i, c in enumerate(text) if c == " "], dtype=np.int32)
    ends = np.array([*starts[1:], len(text)], dtype=np.int32)
    return DocumentTokens(np.arange(len(starts), dtype=np.int32), starts, ends, text, None)


def test_excerpts_by_character_are_the_same_text_for_every_tokenizer():
    text = "".join(f" {'abcdefgh'[: 2 + index % 7]}" for index in range(200))
    texts = []
    for reading in (words(text), split(text, [1]), cut(split(text, [1]), 700)):
        places = excerpt_places(reading, IN_CHARACTERS)
        spans = {
            segment: tuple(
                text[reading.char_start[a] : reading.char_start[b]]
                for a, b in ((first, answer), (answer, end))
            )
            for segment, first, answer, end in places
        }
        texts.append(spans)
    assert len(texts[0]) == 4 and texts[0] == texts[1]
    # a cut document loses the excerpts near the cut, the others keep their number
    assert 0 < len(texts[2]) < 4 and texts[2].items() <= texts[0].items()
    for excerpt, answer in texts[0].values():
        assert excerpt[0] == answer[0] == " " and abs(len(excerpt) - 40) < 10


@pytest.mark.parametrize("length", range(151, 351, 5))
def test_excerpts_keep_their_distance_in_characters(length):
    """From the end, where words move them towards it, and from where the tokens were cut."""
    text = "".join(f" {'abcdefgh'[: 2 + index % 7]}" for index in range(90))[:length]
    for reading in (words(text), cut(split(text, [3]), length // 4), split(text, [1])):
        last = int(reading.char_end[-1]) - IN_CHARACTERS.gap
        for _, _, _, end in excerpt_places(reading, IN_CHARACTERS):
            assert reading.char_start[end - 1] < last


def cut(reading: DocumentTokens, tokens: int) -> DocumentTokens:
    part = slice(0, tokens)
    return dataclasses.replace(
        reading,
        ids=reading.ids[part],
        char_start=reading.char_start[part],
        char_end=reading.char_end[part],
    )


def test_tokens_that_cross_a_mark_belong_to_what_is_before_it():
    text = "".join(f" {index:03d}" for index in range(100))
    for reading in (split(text, [3]), split(text, [7, 2])):
        for _, first, answer, end in excerpt_places(reading, IN_CHARACTERS):
            marks = [reading.char_start[each] for each in (first, answer, end)]
            starts = excerpt_starts(len(text), IN_CHARACTERS)
            assert any(
                all(0 <= m - (s + size) < 4 + 7 for m, size in zip(marks, (0, 40, 60), strict=True))
                for s in starts
            )


@pytest.mark.parametrize("bos", BOS)
def test_a_needle_is_at_its_depth_and_is_asked_for_at_the_end(bos):
    ids = np.arange(1000, 1300, dtype=np.int32)
    reading = reading_of(ids, bos)
    found = needles(reading, NEEDLE)
    assert len(found) == 3 and found == sorted(found, key=lambda each: each.start)
    sentences = [ids[each.start : each.end].tolist() for each in found]
    taken = [token for sentence in sentences for token in sentence]
    rest = [token for token in ids.tolist() if token not in taken]
    conditions = built(NEEDLE, reading)
    present, absent = conditions["needle_present"], conditions["needle_absent"]
    # each sentence at each depth, once
    assert sorted(request.segment for request in present) == list(range(9))
    for request in [*present, *absent]:
        depth, sentence = divmod(request.segment, 3)
        needle = found[sentence]
        assert request.positions.tolist() == list(range(needle.answer, needle.end))
        assert request.targets.tolist() == ids[request.positions].tolist()
        seen = visible(request, bos)
        cue = sentences[sentence][: needle.answer - needle.start]
        assert seen[len(seen) - len(cue) :] == cue and 0 < len(cue) < len(sentences[sentence])
        assert request.context_tokens.tolist() == [
            len(seen) + index for index in range(len(request.positions))
        ]
        document = seen[: len(seen) - len(cue)]
        if any(request is each for each in absent):
            assert document == rest
            continue
        assert sorted(document) == ids.tolist()
        assert [token for token in document if token not in taken] == rest
        at = document.index(sentences[sentence][0])
        assert document[at : at + len(sentences[sentence])] == sentences[sentence]
        before = sum(token in rest for token in document[:at])
        # sentences of the made-up text have 25 words
        assert abs(before - NEEDLE.depths[depth] * len(rest)) <= 13


def test_needles_are_sentences_that_occur_once_and_fit():
    lines = ["This one is long enough. ", "Short. ", "This one comes twice, so not. "]
    lines += ["Here is another sentence. ", lines[2], "This one has more than thirty letters. "]
    text = "".join([*lines, "And a third of that kind."])
    reading = words(" " + text)
    probe = NEEDLE.model_copy(update={"depths": (0.2, 0.8), "rounds": 1, "max_characters": 30})
    chosen = {
        reading.text[reading.char_start[n.start] : reading.char_end[n.end - 1]].strip()
        for seed in range(20)
        for n in needles(reading, probe.model_copy(update={"seed": seed}))
    }
    assert chosen == {
        "This one is long enough.", "Here is another sentence.", "And a third of that kind.",
    }  # fmt: skip
    assert needles(reading, probe.model_copy(update={"depths": (0.1, 0.2, 0.3, 0.4)})) == []


def test_parameters_that_older_files_do_not_know_leave_fingerprints_alone():
    plain = RetrievalProbe(
        kind="retrieval", excerpts=4, excerpt_tokens=6, answer_tokens=3, min_gap=20, seed=3
    )
    expected = {
        "excerpts": 4, "excerpt_tokens": 6, "answer_tokens": 3, "min_gap": 20, "region": 0.66,
        "seed": 3,
    }  # fmt: skip
    assert plain.conditions()[0].params == IN_TOKENS.conditions()[0].params == expected


@pytest.mark.parametrize("bos", BOS)
def test_a_passage_stands_behind_itself_or_behind_another_text(bos):
    ids, other = np.arange(100, 130, dtype=np.int32), np.arange(500, 530, dtype=np.int32)
    probe = CopyProbe(kind="copy", lengths=(5, 12), passages=2)
    found = built(probe, reading_of(ids, bos, other))
    names = ["copy_5_present", "copy_5_absent", "copy_12_present", "copy_12_absent"]
    assert list(found) == names
    start = [] if bos is None else [bos]
    for name, requests in found.items():
        length = int(name.split("_")[1])
        assert [request.segment for request in requests] == [0, 1]
        for request in requests:
            first = int(request.positions[-1]) + 1 - length
            passage = ids[first : first + length].tolist()
            before = passage if "present" in name else other[-length:].tolist()
            assert request.ids.tolist() == [*start, *before, *start, *passage]
            assert request.targets.tolist() == passage[length // 2 :]
            assert request.positions.tolist() == [*range(first + length // 2, first + length)]
            assert request.context_tokens.tolist() == [*range(length + length // 2, 2 * length)]
    # 30 tokens have room for two passages of 12 with 2 tokens before, between and behind them
    assert [int(r.positions[0]) for r in found["copy_12_present"]] == [2 + 6, 16 + 6]


@pytest.mark.parametrize("bos", BOS)
def test_a_passage_in_random_order_is_the_same_in_both_texts(bos):
    ids, other = np.arange(100, 130, dtype=np.int32), np.arange(500, 530, dtype=np.int32)
    reading = reading_of(ids, bos, other)
    probe = CopyProbe(kind="copy", name="copy_random", lengths=(12,), passages=2, order="random")
    start = [] if bos is None else [bos]
    orders = []
    for present, absent in zip(*built(probe, reading).values(), strict=True):
        passage = present.ids[-12:].tolist()
        first = min(passage)
        assert sorted(passage[:6]) == [*range(first, first + 6)] != passage[:6]
        assert sorted(passage[6:]) == [*range(first + 6, first + 12)] != passage[6:]
        assert present.ids.tolist() == [*start, *passage, *start, *passage]
        assert absent.ids.tolist() == [*start, *other[-12:].tolist(), *start, *passage]
        for request in (present, absent):
            # a row has the position of its token in the document, and how much the model saw
            assert request.targets.tolist() == passage[6:] == ids[request.positions].tolist()
            assert request.context_tokens.tolist() == [*range(18, 24)]
        orders.append([token - first for token in passage])
    assert orders[0] != orders[1]
    (again, *_) = built(probe.model_copy(update={"seed": 1}), reading)["copy_random_12_present"]
    assert [token - 102 for token in again.ids[-12:].tolist()] != orders[0]
    # what files of older versions have stays current
    assert CopyProbe(kind="copy", lengths=(5, 12)).conditions()[0].params == {
        "lengths": [5, 12], "passages": 1, "length": 5,
    }  # fmt: skip


@pytest.mark.parametrize("bos", BOS)
def test_only_what_is_far_is_replaced(bos):
    ids, other = np.arange(100, 130, dtype=np.int32), np.arange(500, 530, dtype=np.int32)
    found = built(FarProbe(kind="far", near=6, targets=4), reading_of(ids, bos, other))
    assert list(found) == ["far_shuffled", "far_foreign"]
    for name, (request,) in found.items():
        seen = visible(request, bos)
        assert seen[20:] == ids[20:26].tolist()
        assert request.targets.tolist() == ids[26:].tolist()
        assert request.positions.tolist() == [26, 27, 28, 29]
        assert request.context_tokens.tolist() == [6, 7, 8, 9]
        if name == "far_foreign":
            assert seen[:20] == other[:20].tolist()
        else:
            assert seen[:20] != ids[:20].tolist() and sorted(seen[:20]) == ids[:20].tolist()


@pytest.mark.parametrize("bos", BOS)
def test_a_second_half_stands_behind_another_first_half(bos):
    ids, other = np.arange(100, 130, dtype=np.int32), np.arange(500, 510, dtype=np.int32)
    found = built(HalvesProbe(kind="halves", lengths=(8, 20, 22, 40)), reading_of(ids, bos, other))
    # 22 tokens need 11 of the other document, 40 need as many of this one
    assert [len(requests) for requests in found.values()] == [1, 1, 0, 0]
    for half, (request,) in zip((4, 10), list(found.values())[:2], strict=True):
        assert visible(request, bos) == other[:half].tolist()
        assert request.targets.tolist() == ids[half : 2 * half].tolist()
        assert request.positions.tolist() == [*range(half, 2 * half)]
        assert request.context_tokens.tolist() == [*range(half)]


def test_a_document_without_distant_context_has_no_targets():
    found = built(FarProbe(kind="far", near=6, targets=4), reading_of(range(10), 7, range(10)))
    assert list(found.values()) == [[], []]


def test_another_way_to_replace_leaves_the_other_condition_as_it_is():
    one, both = (
        FarProbe(kind="far", near=6, targets=4, replaced=names).conditions()[0]
        for names in (("shuffled",), ("shuffled", "foreign"))
    )
    assert one.params == both.params == {"near": 6, "targets": 4, "seed": 0}


@pytest.mark.parametrize("length", [1, 4, 8, 9, 10, 40])
def test_passages_fit_into_the_document_without_overlap(length):
    starts = passage_starts(length, 4, 3)
    assert len(starts) == (min(3, length // 4) if length > 8 else 0)
    assert all(later >= start + 4 for start, later in itertools.pairwise(starts))
    assert all(0 <= start <= length - 4 for start in starts)


def test_a_passage_without_another_text_as_long_is_not_asked_for():
    ids = np.arange(100, 130, dtype=np.int32)
    found = built(CopyProbe(kind="copy", lengths=(5, 12)), reading_of(ids, 7, ids[:8]))
    assert [len(requests) for requests in found.values()] == [1, 1, 1, 0]


EXCERPT: dict[str, Any] = {"excerpts": 1, "excerpt_tokens": 4}


@pytest.mark.parametrize(
    ("probe", "values"),
    [
        # tokens and characters together
        (RetrievalProbe, EXCERPT),
        (RetrievalProbe, EXCERPT | {"answer_characters": 4, "min_gap": 4}),
        # the tail is the last min_gap of a document
        (RetrievalProbe, EXCERPT | {"answer_tokens": 4, "min_gap": 0, "controls": ("tail",)}),
        (LadderProbe, {"contexts": (8, 8), "targets": 4}),
        (LadderProbe, {"contexts": (8, 16), "targets": 5}),  # not a multiple of spans
        (CopyProbe, {"lengths": (8,), "seed": 1}),  # nothing is drawn
        (CopyProbe, {"lengths": (8, 8)}),
        (CopyProbe, {"lengths": (1, 8)}),
        (HalvesProbe, {"lengths": (8, 9)}),
        (HalvesProbe, {"lengths": (8, 4)}),
        (NeedleProbe, {"depths": (0.5, 0.2)}),
        (NeedleProbe, {"depths": (0.5,), "rounds": 2}),
    ],
)
def test_what_can_not_be_asked_for_is_refused(probe, values):
    kind = probe.model_fields["kind"].annotation.__args__[0]
    with pytest.raises(ValidationError) as caught:
        probe(kind=kind, **values)
    assert [error["type"] for error in caught.value.errors()] == ["value_error"]
