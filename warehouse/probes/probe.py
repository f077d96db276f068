"""The interface of a probe.

A kind of probe is defined in this package, or in `probes/` of a folder of $TOKENMART_PLUGINS: a
subclass of `Probe` with its parameters as fields, and a function from tokens to requests.
"""

from __future__ import annotations

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

from pydantic import Field

from warehouse import plugins
from warehouse.file_model import FileModel
from warehouse.probes.request import Build, Condition, ConditionKind

PROBE_NAME = r"^[a-z][a-z0-9_]{0,99}$"
NO_PARAMETERS = {"kind", "name", "top_k"}
"""Fields of a probe that its rows do not depend on."""
_HALF = re.compile(r"_(with_document|without_document|present|absent)$")
"""Retrieval and needle probes make two conditions, each of a kind of its own."""


class Probe(FileModel, ABC):
    """A probe of a problem file: an entry of its `probes`.

    A subclass declares `kind: Literal[…]`, its parameters as fields, `condition_kinds`, and
    `conditions`. It may give `name` a default.

    `top_k` of any probe: number of top-k tokens stored for each position, with their log-probs, in
    the side table `top_tokens`.
    """

    condition_kinds: ClassVar[tuple[ConditionKind, ...]]
    """The kinds of the conditions it creates."""

    kind: str
    name: str = Field(pattern=PROBE_NAME)
    top_k: int = Field(default=0, ge=0, le=1000)

    @abstractmethod
    def conditions(self) -> list[Condition]:
        """The context conditions it creates, one or several."""

    def parameters(self) -> dict[str, Any]:
        """Settings that its rows depend on, as JSON-able values, without kind and name."""
        return self.model_dump(mode="json", exclude=NO_PARAMETERS)

    def condition(
        self,
        kind: ConditionKind,
        build: Build,
        *,
        suffix: str = "",
        seed: int = 0,
        **parameters: Any,
    ) -> Condition:
        """A condition of this probe, named after it; `parameters` are its own."""
        params = self.parameters() | parameters
        name = f"{self.name}{suffix}"
        return Condition(name, kind, params, self.name, seed, build, self.top_k)


@cache
def condition_kinds() -> Mapping[str, ConditionKind]:
    """Every kind of condition by its name.

    Raises:
        TokenmartError: a plugin can't be loaded, or two claim one kind of probe.
    """
    for module in ("context", "lookup"):
        importlib.import_module(f"{__package__}.{module}")
    probes = plugins.kinds(Probe, "probes").values()  # type: ignore[type-abstract]
    return {kind.name: kind for probe in probes for kind in probe.condition_kinds}


def contexts(
    conditions: Sequence[Condition], compare: Iterable[tuple[str, str]]
) -> dict[str, list[str]]:
    """Probe that a metric family `needs` → the suffixes after `@` in its variants' names; `""` for
    none.

    The same rules as those of `expected_values.sql`, before anything is extracted.

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


def conditions_behind(
    suffix: str, conditions: Sequence[Condition], compare: Iterable[tuple[str, str]]
) -> set[str]:
    """Names of the conditions that a variant with this suffix is computed from, besides `full`.

    Args:
        suffix: what follows `@` in the variant's name: a condition, a probe, or a declared pair.
        conditions, compare: as in `contexts`.
    """
    for long, short in compare:
        if suffix == f"{short}_in_{long}":
            return {short, long}
    return {each.name for each in conditions if suffix in (each.name, each.probe)}
