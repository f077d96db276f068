"""The interface of a scoring backend.

A backend is one file in this package, or in `backends/` of a folder of $TOKENMART_PLUGINS: a
subclass of `Backend` whose `load` gives a `Scorer`. Heavy packages are imported inside `load`, so
that listing the backends costs nothing.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from extract.checkpoints import Checkpoint
from warehouse import plugins
from warehouse.errors import TokenmartError
from warehouse.probes.request import Ids, Request
from warehouse.problem.models import ModelSpec


@dataclass(frozen=True)
class TokenScores:
    """Statistics of n scored tokens, each of shape (n,); nats, natural logarithm.

    Attributes:
        logprob: of the token, at most 0.
        entropy: of the full predictive distribution.
        rank: 1 = the model's top-1 token.
        top_logprob: of the top-1 token, at least `logprob`.
        choices: shape (n, k), vocabulary ids of the top-k tokens, best first; None where
            they were not asked for.
        choice_logprobs: shape (n, k), theirs.
        varentropy: variance of −log p under the predictive distribution, nats²; None where the
            backend has none.
    """

    logprob: NDArray[np.float32]
    entropy: NDArray[np.float32]
    rank: NDArray[np.int32]
    top_logprob: NDArray[np.float32]
    choices: NDArray[np.int32] | None = None
    choice_logprobs: NDArray[np.float32] | None = None
    varentropy: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Divergence:
    """A model's predictions at n scored tokens compared with a reference's, each of shape (n,).

    Attributes:
        kl_reference_model: KL(reference ‖ model), in nats.
        kl_model_reference: KL(model ‖ reference), in nats.
        same_top: whether both have the same top-1 token.
    """

    kl_reference_model: NDArray[np.float32]
    kl_model_reference: NDArray[np.float32]
    same_top: NDArray[np.bool_]


@dataclass(frozen=True)
class Scored:
    """Statistics of one request, and the tokens that went through the model for it.

    `divergence` is there where the model was compared with a reference.
    """

    scores: TokenScores
    tokens_processed: int
    divergence: Divergence | None = None


ENGINE_VERSION = "3"
"""Rises whenever the engine may give other rows for the same request than before."""

DEFAULT = "transformers"


@dataclass(frozen=True)
class Loading:
    """Which model to load, and how.

    Attributes:
        spec: the model of the problem file, with its interventions.
        checkpoint: its files: safetensors, config.json, tokenizer.
        device: `cpu`, `cuda`, `cuda:1` …, or `auto-map` for one model over several GPUs.
        dtype: a torch dtype's name: float32, bfloat16 or float16.
        attention: attention implementation; None leaves the choice to the backend.
        working: bytes per GPU that activations and logits of the longest document need.
        cache_share: bytes of KV cache that it needs for each byte of weights.
        sample: the first document's tokens, to check the model on; None where there is none.
        top_k: number of top-k tokens wanted for each position, at most the vocabulary.
        fused: whether fused layers may replace the model's own.
    """

    spec: ModelSpec
    checkpoint: Checkpoint
    device: str
    dtype: str
    attention: str | None = None
    working: int = 0
    cache_share: float = 0.0
    sample: Ids | None = None
    top_k: int = 0
    fused: bool = True


class Scorer(Protocol):
    """A loaded model.

    Attributes:
        parameters: weights of the model, interventions applied.
        attention: what computes attention, for the ledger.
        prefixes: `shared`, or `separate: ` and the reason why requests with one prefix each read
            their own part of it.
        weights: `complete`, which a backend says only where it made sure that every tensor of the
            model was in its files; `none` for a backend without weights.
    """

    parameters: int
    prefixes: str
    weights: str

    @property
    def attention(self) -> str:
        """Implementation and kernel of attention."""

    def check(self) -> None:
        """Score a short text and compare it with the model's own forward.

        Called once, before anything is scored.

        Raises:
            TokenmartError: they differ; nothing of this model may be stored.
            NonFiniteLogits: the model produces NaN or infinite logits.
        """

    def score(self, requests: Sequence[Request]) -> Iterable[Scored]:
        """Statistics of each request's targets, in the order of the requests.

        Raises:
            TokenmartError: it can't be done here, out of memory for example.
            NonFiniteLogits: the model produced NaN or infinite logits.
        """


class Backend(ABC):
    """Loads models. A subclass declares `kind`, the name that `--backend` takes."""

    kind: ClassVar[str]

    @abstractmethod
    def load(self, loading: Loading) -> Scorer:
        """Load a model.

        Raises:
            TokenmartError: it can't be loaded.
        """


def check_results(results: Sequence[Scored], asked: int, wants_choices: bool, backend: str) -> None:
    """Stop at a backend that gives other results than were asked for.

    Raises:
        TokenmartError: it returns too few or too many scores, or no top-k tokens.
    """
    if len(results) != asked:
        raise TokenmartError(
            f"backend {backend}: {len(results)} results for {asked} requests; it must give one for "
            "each, in their order"
        )
    if wants_choices and any(each.scores.choices is None for each in results):
        raise TokenmartError(
            f"backend {backend} returns no top-k tokens; leave out --top-k and top_k"
        )


def find_backend(name: str) -> Backend:
    """The backend of this name.

    Raises:
        TokenmartError: no such backend; the message lists what there is.
    """
    importlib.import_module(f"{__package__}.transformers")
    known = plugins.kinds(Backend, "backends")  # type: ignore[type-abstract]
    if name not in known:
        raise TokenmartError(
            f"--backend {name}: no such backend; there are: {', '.join(known)}",
            code="unknown-backend",
            where="--backend",
        )
    return known[name]()
