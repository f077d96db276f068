"""Every kind of probe and of condition."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from warehouse import plugins
from warehouse.probes.context import (
    CopyProbe,
    DivergenceProbe,
    FarProbe,
    FullProbe,
    HalvesProbe,
    LadderProbe,
    WindowProbe,
)
from warehouse.probes.lookup import NeedleProbe, RetrievalProbe
from warehouse.probes.probe import Probe
from warehouse.probes.request import ConditionKind

PROBES: tuple[type[Probe], ...] = (
    FullProbe,
    WindowProbe,
    LadderProbe,
    FarProbe,
    HalvesProbe,
    CopyProbe,
    RetrievalProbe,
    NeedleProbe,
    DivergenceProbe,
)
"""Those of the core; plugins add others."""


@cache
def condition_kinds() -> Mapping[str, ConditionKind]:
    """Every kind of condition by its name.

    Raises:
        TokenmartError: two classes declare one kind of probe.
    """
    probes = plugins.kinds("probes", PROBES).values()
    return {kind.name: kind for probe in probes for kind in probe.condition_kinds}
