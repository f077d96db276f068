"""Contexts of metrics, and the conditions behind each: by probe or pair, not by prefix."""

from warehouse.probes.context import FullProbe, LadderProbe, WindowProbe
from warehouse.probes.lookup import NeedleProbe, RetrievalProbe
from warehouse.probes.probe import contexts

PASSAGES = {"excerpts": 2, "excerpt_characters": 40, "answer_characters": 20}
PROBES = (
    FullProbe(kind="full"),
    WindowProbe(kind="window", name="window_512", context=512, stride=128),
    WindowProbe(kind="window", name="window_5120", context=5120, stride=1024, top_k=3),
    LadderProbe(kind="ladder", contexts=(8, 16), targets=4),
    NeedleProbe(kind="needle"),
    RetrievalProbe(kind="retrieval", name="retrieval", min_gap_characters=80, **PASSAGES),
    RetrievalProbe(
        kind="retrieval",
        name="retrieval_far",
        min_gap_characters=4000,
        controls=("tail",),
        **PASSAGES,
    ),
)
FAR = {"retrieval_far_with", "retrieval_far_without"}


def test_contexts_of_a_problem():
    conditions = [condition for probe in PROBES for condition in probe.conditions()]
    compare = [("window_5120", "window_512"), ("full", "ladder_8"), ("ladder_16", "ladder_8")]
    found = {each[:2]: set(each.conditions) for each in contexts(conditions, compare)}
    assert found == {
        ("full", ""): {"full"},
        ("window", "window_512"): {"full", "window_512"},
        ("window", "window_5120"): {"full", "window_5120"},
        ("window", "window_512_in_window_5120"): {"window_5120", "window_512"},
        ("window", "ladder_8"): {"full", "ladder_8"},
        ("window", "ladder_8_in_ladder_16"): {"ladder_16", "ladder_8"},
        ("choices", "window_5120"): {"full", "window_5120"},
        ("ladder", "ladder"): {"ladder_8", "ladder_16"},
        ("needle", "needle"): {"needle_present", "needle_absent"},
        ("retrieval", "retrieval"): {"retrieval_with", "retrieval_without"},
        ("retrieval", "retrieval_far"): FAR,
        ("retrieval_tail", "retrieval_far"): {*FAR, "retrieval_far_tail"},
    }
