"""Reference models of a run: their heads and hidden states, with which models are compared.

One model is in memory at a time. A reference is loaded first; its last hidden states of the
documents that are left wait in a scratch file (width × bytes of its dtype for each token), and
only its head stays in memory. All models of the run that read the same tokens share them. The file
has no name, so nothing of it is left when the process ends, however it ends.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from extract.failures import REFERENCE, why_failed
from extract.planning.plan import ModelPlan
from extract.scoring.statistics import Scored
from warehouse.errors import TokenmartError
from warehouse.files import storage_errors
from warehouse.probes.request import Ids, Request
from warehouse.progress import Progress

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from extract.scoring.divergence import Comparer
    from extract.scoring.engine import Engine
    from extract.scoring.head import HeadWeights

Load = Callable[[ModelPlan, Ids], "Engine"]
"""Loads a model; the tokens are a sample on which it is checked."""

_Key = tuple[str, tuple[bytes, bytes, int]]
"""Reference and the key of a request."""


@dataclass
class _Stored:
    """Hidden states in the scratch file, and what they cost: booked on the first use."""

    place: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    tokens: int
    seconds: float


class References:
    """Reference models of a run.

    Args:
        folder: for the scratch file.
        progress: called at each document.
    """

    def __init__(self, folder: Path, progress: Progress) -> None:
        self._folder, self._progress = folder, progress
        self._file: IO[bytes] | None = None
        self._last: tuple[Engine, str, Comparer] | None = None
        self._heads: dict[str, HeadWeights] = {}
        # hidden states, or why there are none
        self._states: dict[_Key, _Stored | str] = {}

    def close(self) -> None:
        """Delete the scratch file, and with it all hidden states."""
        if self._file is not None:
            self._file.close()
        self._file = None
        self._states.clear()

    def compute(self, plan: ModelPlan, load: Load) -> None:
        """Compute the hidden states that a model's tasks need, before that model is loaded.

        A reference that fails is recorded, and what needs it fails in `compare`.

        Raises:
            StorageError: the disk is full.
            DeviceLostError: the GPU failed.
        """
        self._last = None  # it keeps the model before in memory
        for name, reference in plan.references.items():
            asked = {(name, request.key): request for request in _requests(plan, name)}
            left = {key: request for key, request in asked.items() if key not in self._states}
            if left:
                self._compute(name, reference, left, load)

    def _compute(
        self,
        name: str,
        reference: ModelPlan,
        left: Mapping[_Key, Request],
        load: Load,
    ) -> None:
        scorers: list[Engine] = []
        sample = next(iter(left.values())).ids

        def load_it() -> None:
            self._progress(f"{name}: loading, as a reference", 0)
            scorer = load(reference, sample)
            self._heads[name] = scorer.head_weights.to("cpu")
            scorers.append(scorer)

        reason = why_failed(name, load_it)
        for number, (key, request) in enumerate(left.items(), start=1):
            self._progress(f"{name}: reference of {number} of {len(left)} documents", 0)
            for scorer in scorers:
                reason = why_failed(name, partial(self._write, scorer, key, request))
            if reason:
                self._states[key] = reason

    def _write(self, scorer: Engine, key: _Key, request: Request) -> None:
        import torch

        from extract.scoring.divergence import states_of

        started = time.perf_counter()
        states = states_of(scorer, request).contiguous()
        with storage_errors(self._folder):
            if self._file is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - see `close`
            place = self._file.seek(0, 2)
            self._file.write(states.view(torch.uint8).numpy().data)
        seconds = time.perf_counter() - started
        self._states[key] = _Stored(
            place, tuple(states.shape), states.dtype, len(request.ids), seconds
        )

    def _read(self, stored: _Stored) -> Tensor:
        import torch

        assert self._file is not None
        states = torch.empty(stored.shape, dtype=stored.dtype)
        data = states.view(torch.uint8).numpy()
        self._file.seek(stored.place)
        data[:] = np.frombuffer(self._file.read(data.nbytes), np.uint8).reshape(data.shape)
        return states

    def _comparer(self, scorer: Engine, name: str) -> Comparer:
        """Made once for each model and reference: the head is packed for its device."""
        from extract.scoring.divergence import Comparer

        if self._last is None or self._last[:2] != (scorer, name):
            self._last = scorer, name, Comparer(scorer, self._heads[name])
        return self._last[2]

    def compare(
        self, scorer: Engine, name: str, requests: Iterable[Request]
    ) -> tuple[list[Scored], float]:
        """Scores of requests with their divergence from a reference, and the reference's seconds.

        Raises:
            TokenmartError: the reference failed.
        """
        results, seconds = [], 0.0
        for request in requests:
            stored = self._states[name, request.key]
            if isinstance(stored, str):
                raise TokenmartError(f"reference {name}: {stored}", code=REFERENCE)
            scored = self._comparer(scorer, name).score(request, self._read(stored))
            tokens = scored.tokens_processed + stored.tokens
            results.append(replace(scored, tokens_processed=tokens))
            seconds += stored.seconds
            stored.tokens, stored.seconds = 0, 0.0
        return results, seconds


def _requests(plan: ModelPlan, name: str) -> Iterable[Request]:
    """Requests of a model's tasks that are compared with a reference."""
    for task in plan.tasks:
        compared = [condition for condition in task.missing if condition.reference == name]
        if not compared:
            continue
        # a document that can't be tokenised fails when its turn comes
        with suppress(TokenmartError):
            reading = plan.reading(task.document, plan.tokenize(task.document), compared)
            for condition in compared:
                yield from condition.build(reading)
