"""How large a made-up warehouse is, and which probes it holds."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Window:
    """A short context: every target sees between `context` and `context + stride` tokens."""

    context: int
    stride: int

    @property
    def name(self) -> str:
        """The condition's name, as problem files spell it."""
        return f"window_{self.context}"


@dataclass(frozen=True)
class Retrieval:
    """The retrieval pair: answers scored after the whole document and after the excerpt alone."""

    excerpts: int
    excerpt_tokens: int
    answer_tokens: int
    min_gap: int
    controls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shape:
    """What to write. `tokens` is the length of a document in tokens of the first tokenizer."""

    problem: str = "synthetic"
    models: int = 4
    model_ids: tuple[str, ...] = ()
    """What the models are called, as their folders are; else `lab--model-0` and so on."""
    documents: int = 3
    tokens: int = 512
    tokenizers: int = 2
    windows: tuple[Window, ...] = (Window(64, 32),)
    retrieval: Retrieval | None = Retrieval(4, 16, 8, 64)
    ladder: tuple[int, ...] = ()
    """Contexts of a ladder, whose targets are a document's last 40 tokens."""
    copies: tuple[int, ...] = ()
    """Lengths of passages that occur twice, at a document's start."""
    halves: tuple[int, ...] = ()
    """Lengths whose second half is also scored behind another document's first half."""
    depths: tuple[float, ...] = ()
    """Depths of needles, one sentence for each, in as many rounds."""
    top_k: int = 0
    """Top-k tokens after the whole document and of the first window."""
    divergence: bool = False
    """Every token once more, with its divergence from the first model's prediction."""
    compare: tuple[tuple[str, str], ...] = ()
    downstream_items: int = 12
    vocabulary: int = 3_000
    seed: int = 0
    skip: frozenset[tuple[str, str, int | None]] = field(default_factory=frozenset)
    """(model_id, condition, doc_id or None for all) that were never extracted."""
    finished_at: str = "2026-01-01T00:00:00Z"
