"""GPUs by name: their peak rates and memory, by the makers' data sheets."""

from __future__ import annotations

from dataclasses import dataclass

SUSTAINED = 0.5
"""Share of the peak rate that a forward over long texts is assumed to reach."""


@dataclass(frozen=True)
class Card:
    """A GPU.

    Attributes:
        name: as people call it.
        words: each of them is part of the name that the driver reports.
        half: peak of matrix products in bfloat16 or float16, FLOP/s, dense.
        single: the same in float32, without TF32.
        memory: bytes in all.
        bandwidth: bytes of memory per second.
        capability: CUDA's compute capability.
    """

    name: str
    words: tuple[str, ...]
    half: float
    single: float
    memory: int
    bandwidth: float
    capability: tuple[int, int]


def _card(
    name: str, words: str, half: float, single: float, gib: float, tb: float, sm: tuple[int, int]
) -> Card:
    return Card(
        name, tuple(words.split()), half * 1e12, single * 1e12, int(gib * 2**30), tb * 1e12, sm
    )


# a card with more words comes before one with fewer: 'A100 80GB' before 'A100'
CARDS = (
    _card("B200 180 GB", "b200", 2250, 80, 178.4, 8.0, (10, 0)),
    _card("H200 141 GB", "h200", 989, 67, 139.8, 4.8, (9, 0)),
    _card("H100 NVL 94 GB", "h100 nvl", 835, 60, 93.1, 3.9, (9, 0)),
    _card("H100 PCIe 80 GB", "h100 pcie", 756, 51, 79.2, 2.0, (9, 0)),
    _card("H100 SXM 80 GB", "h100", 989, 67, 79.2, 3.35, (9, 0)),
    _card("GH200 96 GB", "gh200", 989, 67, 94.5, 4.0, (9, 0)),
    _card("A100 40 GB", "a100 40gb", 312, 19.5, 39.4, 1.55, (8, 0)),
    _card("A100 80 GB", "a100", 312, 19.5, 79.2, 2.0, (8, 0)),
    _card("L40S 48 GB", "l40s", 362, 91, 44.4, 0.86, (8, 9)),
    _card("L40 48 GB", "l40", 181, 90, 44.4, 0.86, (8, 9)),
    _card("RTX 6000 Ada 48 GB", "6000 ada", 364, 91, 47.5, 0.96, (8, 9)),
    _card("A40 48 GB", "a40", 150, 37, 44.4, 0.70, (8, 6)),
    _card("RTX A6000 48 GB", "a6000", 155, 39, 47.5, 0.77, (8, 6)),
    _card("RTX 5090 32 GB", "5090", 209, 105, 31.4, 1.79, (12, 0)),
    _card("RTX 4090 24 GB", "4090", 165, 83, 23.6, 1.01, (8, 9)),
    _card("RTX 3090 24 GB", "3090", 71, 36, 23.6, 0.94, (8, 6)),
    _card("A10 24 GB", "a10", 125, 31, 22.1, 0.60, (8, 6)),
    _card("L4 24 GB", "l4", 121, 30, 22.2, 0.30, (8, 9)),
    _card("A30 24 GB", "a30", 165, 10, 23.6, 0.93, (8, 0)),
    _card("RTX 4080 16 GB", "4080", 97, 49, 15.7, 0.72, (8, 9)),
    _card("V100 32 GB", "v100 32gb", 112, 15.7, 31.7, 0.90, (7, 0)),
    _card("V100 16 GB", "v100", 112, 15.7, 15.8, 0.90, (7, 0)),
    _card("T4 16 GB", "t4", 65, 8, 14.6, 0.32, (7, 5)),
    _card("MI300X 192 GB", "mi300x", 1307, 163, 191.5, 5.3, (9, 4)),
    _card("MI250X 64 GB (one half)", "mi250x", 192, 48, 63.9, 1.6, (9, 0)),
)


def card_of(name: str) -> Card | None:
    """The card that a driver calls so, such as `NVIDIA H100 80GB HBM3`; None for another."""
    words = name.lower().replace("-", " ").split()
    for card in CARDS:
        # whole words: an A100 is no A10
        if all(word in words for word in card.words):
            return card
    return None


def sustained_rate(card: Card, dtype: str) -> float:
    """FLOP/s that estimates assume of a card in this dtype."""
    return SUSTAINED * (card.single if dtype == "float32" else card.half)


def smallest_cards(needed: int) -> list[Card]:
    """The cards with at least this memory, in bytes, and the least of it, in the table's order."""
    enough = [card for card in CARDS if card.memory >= needed]
    least = min((card.memory for card in enough), default=0)
    return [card for card in enough if card.memory == least]
