"""Lengths of which conditions score something of a document."""

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
from warehouse.probes.planned import planned_document, too_short

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
def test_fewest_tokens_of_conditions(probe, fewest):
    conditions = probe.conditions()
    for condition, least in zip(conditions, fewest, strict=True):
        counts = [
            sum(len(request.targets) for request in condition.build(planned_document(tokens)))
            for tokens in (least - 1, least, 2 * least, 3 * least)
        ]
        assert counts[0] == 0 < min(counts[1:])


def test_short_documents_are_named_with_their_conditions():
    conditions = [c for p in (WINDOW, LADDER, NeedleProbe(kind="needle")) for c in p.conditions()]
    lines = too_short([("essay.md", 873), ("long.md", 9000), ("note.md", 70)], conditions)
    essay, note = lines
    assert essay.partition(":")[0] == "essay.md" and essay.endswith("for window_512")
    assert note.partition(":")[0] == "note.md"
    names = "window_512, ladder_64, ladder_256, needle_present, needle_absent"
    assert note.endswith(f"for {names}")
