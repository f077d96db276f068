"""The value of distant context: a document's end after its own beginning, changed."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from warehouse.probes.probe import NO_PARAMETERS, PROBE_NAME, Probe
from warehouse.probes.request import (
    Condition,
    ConditionKind,
    Ids,
    Reading,
    Request,
    span,
    with_bos,
)

SHUFFLED = ConditionKind("far_shuffled")
FOREIGN = ConditionKind("far_foreign", reads_foreign=True)


class FarProbe(Probe):
    """The last `targets` tokens of a document, with `near` tokens before them left as they are.

    The text before those is replaced: in `…_shuffled` by its own tokens in random order, in
    `…_foreign` by as many tokens of another document (Sun et al. 2021, arXiv 2109.09115,
    section 4). `compare: [[full, far_shuffled]]` compares such a text with the document, token by
    token. A condition costs one document; documents of near + targets tokens or less have no rows.
    """

    condition_kinds: ClassVar[tuple[ConditionKind, ...]] = (SHUFFLED, FOREIGN)

    kind: Literal["far"]
    name: str = Field(default="far", pattern=PROBE_NAME)
    near: int = Field(ge=1)
    targets: int = Field(ge=1)
    replaced: tuple[Literal["shuffled", "foreign"], ...] = Field(
        default=("shuffled", "foreign"), min_length=1
    )
    seed: int = 0

    def parameters(self) -> dict[str, Any]:
        """What the rows depend on: with another way to replace, the other conditions stay."""
        return self.model_dump(mode="json", exclude=NO_PARAMETERS | {"replaced"})

    def conditions(self) -> list[Condition]:
        """One condition for each way to replace the distant context."""
        kinds = {"shuffled": SHUFFLED, "foreign": FOREIGN}
        return [
            self.condition(
                kinds[name],
                partial(far_requests, kind=kinds[name], probe=self),
                suffix=f"_{name}",
                seed=self.seed,
            )
            for name in dict.fromkeys(self.replaced)
        ]


def far_requests(reading: Reading, *, kind: ConditionKind, probe: FarProbe) -> list[Request]:
    """The document's end, after near tokens of its own and distant ones that are replaced.

    `context_tokens` counts the tokens before it that are in their place.
    """
    length = len(reading.ids)
    far = length - probe.near - probe.targets
    if far < 1:
        return []
    if kind == FOREIGN:
        assert reading.foreign is not None, "extraction gives one to a kind that reads_foreign"
        before: Ids = reading.foreign.ids[:far]
    else:
        order = np.random.default_rng([probe.seed, len(reading.text)]).permutation(far)
        before = reading.ids[order]
    ids = with_bos(np.concatenate([before, reading.ids[far:]]), reading.bos)
    positions = span(length - probe.targets, length)
    return [
        Request(
            segment=0,
            ids=ids,
            first_target=len(ids) - probe.targets,
            positions=positions,
            context_tokens=positions - np.int32(far),
        )
    ]
