"""Contexts of a problem for which metrics are computed, as named after `@` in a variant's name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from warehouse.probes.request import Condition

_HALF = re.compile(r"_(with_document|without_document|present|absent)$")
"""Retrieval and needle probes make two conditions, each of a kind of its own."""


def contexts(
    conditions: Sequence[Condition], compare: Iterable[tuple[str, str]]
) -> dict[str, list[str]]:
    """Probe that a metric family `needs` → the suffixes after `@` in its variants' names; `""` for
    none.

    The same rules as those of `int_expected_values.sql`, before anything is extracted.

    Args:
        conditions: of all probes of the problem.
        compare: pairs of conditions that its file declares, the longer context first.
    """
    by_name = {each.name: each for each in conditions}
    full = [each.name for each in conditions if each.kind.name == "full"]
    windows = [each.name for each in conditions if each.kind.name == "window"]
    pairs = [(window, window) for _ in full for window in windows]
    for long, short in compare:
        whole = by_name[long].kind.name == "full"
        pairs.append((short if whole else f"{short}_in_{long}", short))
    found: dict[str, dict[str, None]] = {}
    for each in conditions:
        if each.kind.name not in ("full", "window"):
            found.setdefault(_HALF.sub("", each.kind.name), {})[each.probe] = None
    if full:
        found["full"] = {"": None}
    for suffix, short in pairs:
        found.setdefault("window", {})[suffix] = None
        if by_name[short].top_k:
            found.setdefault("choices", {})[suffix] = None
    return {needs: list(suffixes) for needs, suffixes in found.items()}
