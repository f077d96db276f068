"""Which conditions a variant is computed from: by name, probe or declared pair, not by prefix."""

import pytest

from warehouse.probes.context import FullProbe, WindowProbe
from warehouse.probes.lookup import RetrievalProbe
from warehouse.probes.probe import conditions_behind

PASSAGES = {"excerpts": 2, "excerpt_characters": 40, "answer_characters": 20}
PROBES = (
    FullProbe(kind="full"),
    WindowProbe(kind="window", name="window_512", context=512, stride=128),
    WindowProbe(kind="window", name="window_5120", context=5120, stride=1024),
    RetrievalProbe(kind="retrieval", name="retrieval", min_gap_characters=80, **PASSAGES),
    RetrievalProbe(kind="retrieval", name="retrieval_far", min_gap_characters=4000, **PASSAGES),
)


@pytest.mark.parametrize(
    ("suffix", "behind"),
    [
        ("", set()),
        ("window_512", {"window_512"}),
        ("window_512_in_window_5120", {"window_512", "window_5120"}),
        ("retrieval", {"retrieval_with", "retrieval_without"}),
        ("retrieval_far", {"retrieval_far_with", "retrieval_far_without"}),
    ],
)
def test_conditions_behind_a_suffix(suffix: str, behind: set[str]) -> None:
    conditions = [condition for probe in PROBES for condition in probe.conditions()]
    assert conditions_behind(suffix, conditions, [("window_5120", "window_512")]) == behind
