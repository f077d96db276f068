"""Probes are pure: which tokens go in, which are scored, with how much context."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from readings import reading_of

from warehouse.probes.context import FullProbe, WindowProbe, full_requests, window_requests
from warehouse.probes.lookup import (
    WITH_DOCUMENT,
    WITHOUT_DOCUMENT,
    RetrievalProbe,
    excerpt_starts,
    retrieval_requests,
)

TOKENS = np.arange(100, 200, dtype=np.int32)
RETRIEVAL = RetrievalProbe(
    kind="retrieval", excerpts=4, excerpt_tokens=6, answer_tokens=3, min_gap=20, seed=3
)


@pytest.mark.parametrize("bos", [None, 7])
def test_full_scores_every_token_that_has_something_before_it(bos):
    (request,) = full_requests(TOKENS, bos)
    scored = TOKENS if bos is not None else TOKENS[1:]
    assert request.targets.tolist() == scored.tolist()
    assert TOKENS[request.positions].tolist() == scored.tolist()
    assert (request.context_tokens == request.positions).all()


@pytest.mark.parametrize("bos", [None, 7])
@pytest.mark.parametrize(
    ("context", "stride"), [(24, 16), (8, 8), (99, 4), (10, 300), (200, 8), (8, 1)]
)
def test_windows_follow_the_published_procedure_from_the_second_on(bos, context, stride):
    sequence = TOKENS.tolist() if bos is None else [bos, *TOKENS.tolist()]
    expected = []
    start = stride  # the window from 0 has the full context: its rows are those of `full`
    while start < len(sequence) - context:
        window = sequence[start : start + context + stride]
        expected.append((window, window[context:]))
        start += stride
    requests = window_requests(TOKENS, bos, context=context, stride=stride)
    assert [(r.ids.tolist(), r.targets.tolist()) for r in requests] == expected
    for request in requests:
        assert (TOKENS[request.positions] == request.targets).all()
        inside = request.positions[0] - (len(request.ids) - len(request.targets))
        assert (request.context_tokens == request.positions - inside).all()
    scored = [p for request in requests for p in request.positions.tolist()]
    assert scored == sorted(set(scored))


@pytest.mark.parametrize("bos", [None, 7])
def test_retrieval_scores_the_same_answers_with_and_without_the_document(bos):
    reading = reading_of(TOKENS, bos)
    seen = retrieval_requests(reading, kind=WITH_DOCUMENT, probe=RETRIEVAL)
    alone = retrieval_requests(reading, kind=WITHOUT_DOCUMENT, probe=RETRIEVAL)
    assert len(seen) == len(alone) == RETRIEVAL.excerpts
    for one, other in zip(seen, alone, strict=True):
        assert one.targets.tolist() == other.targets.tolist() == TOKENS[one.positions].tolist()
        assert one.positions.tolist() == other.positions.tolist()
        assert (one.context_tokens - other.context_tokens == len(TOKENS)).all()
        assert one.positions[-1] < len(TOKENS) - RETRIEVAL.min_gap
        before = one.ids[: one.first_target]
        assert before.tolist() == TOKENS[one.positions[0] - 6 : one.positions[0]].tolist()
        assert one.prefix[one.prefix_length - len(TOKENS) :].tolist() == TOKENS.tolist()


@pytest.mark.parametrize("length", range(5, 200, 7))
def test_excerpts_never_overlap_and_keep_their_distance_from_the_end(length):
    starts = excerpt_starts(length, RETRIEVAL)
    assert starts == excerpt_starts(length, RETRIEVAL)
    assert all(b - a >= 9 for a, b in itertools.pairwise(starts))
    assert all(0 <= s <= length * 0.66 and s + 9 <= length - 20 for s in starts)


def test_a_retrieval_probe_becomes_two_conditions():
    names = [c.name for c in RETRIEVAL.conditions()]
    assert names == ["retrieval_with", "retrieval_without"]
    assert [c.kind.name for c in FullProbe(kind="full").conditions()] == ["full"]
    window = WindowProbe(kind="window", name="window_8", context=8, stride=4)
    assert window.conditions()[0].params == {"context": 8, "stride": 4}
