"""Lengths from which conditions score something of a document."""

import pytest

from warehouse.probes.context import (
    CopyProbe,
    FarProbe,
    FullProbe,
    HalvesProbe,
    LadderProbe,
    WindowProbe,
)
from warehouse.probes.lookup import NeedleProbe, RetrievalProbe
from warehouse.probes.planned import MOST_TOKENS, fewest_tokens, planned_document, too_short
from warehouse.probes.probe import Probe

WINDOW = WindowProbe(kind="window", name="window_512", context=512, stride=512)
LADDER = LadderProbe(kind="ladder", contexts=(64, 256), targets=16)
RETRIEVAL = RetrievalProbe(
    kind="retrieval", excerpts=2, excerpt_tokens=8, answer_tokens=4, min_gap=50
)


@pytest.mark.parametrize(
    ("probe", "fewest"),
    [
        (FullProbe(kind="full"), [2]),
        (WINDOW, [1025]),
        (WindowProbe(kind="window", name="w", context=100, stride=30), [131]),
        # every rung is of the targets behind the longest context that fits
        (LADDER, [80, 272]),
        (FarProbe(kind="far", near=32, targets=16), [49, 49]),
        (HalvesProbe(kind="halves", lengths=(64, 128)), [64, 128]),
        (CopyProbe(kind="copy", lengths=(32,)), [65, 65]),
        (RETRIEVAL, [62, 62]),
    ],
)
def test_fewest_tokens_of_conditions(probe: Probe, fewest: list[int]) -> None:
    conditions = probe.conditions()
    assert [fewest_tokens(each) for each in conditions] == fewest
    for condition, least in zip(conditions, fewest, strict=True):
        counts = [
            sum(len(request.targets) for request in condition.build(planned_document(tokens)))
            for tokens in (least - 1, least, 2 * least, 3 * least)
        ]
        assert counts[0] == 0 < min(counts[1:])


def test_a_length_beyond_the_search_is_its_end() -> None:
    (far,) = WindowProbe(kind="window", name="w", context=300_000, stride=9).conditions()
    assert fewest_tokens(far) == MOST_TOKENS


def test_short_documents_are_named_with_their_conditions() -> None:
    conditions = [c for p in (WINDOW, LADDER, NeedleProbe(kind="needle")) for c in p.conditions()]
    lines = too_short([("essay.md", 873), ("long.md", 9000), ("note.md", 70)], conditions)
    assert [line.partition(":")[0] for line in lines] == ["essay.md", "note.md"]
    assert "window_512 (from 1,025)" in lines[0] and "ladder" not in lines[0]
    assert "ladder_64 (from 80)" in lines[1] and "ladder_256 (from 272)" in lines[1]
