"""Which packages the tokenizer of a checkpoint needs, and whether they work here."""

from __future__ import annotations

from pathlib import Path

from warehouse.errors import TokenmartError


def needs_sentencepiece(folder: Path) -> bool:
    """Whether a checkpoint's tokenizer is a sentencepiece file and nothing else."""
    return (folder / "tokenizer.model").is_file() and not (folder / "tokenizer.json").is_file()


def check_sentencepiece() -> None:
    """Try what reads a `tokenizer.model`: two packages, of which not all versions fit together.

    Raises:
        TokenmartError: one is missing, or they don't fit.
    """
    try:
        from sentencepiece import sentencepiece_model_pb2  # noqa: F401
    except Exception as error:  # protobuf has classes of its own for versions that don't fit
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        raise TokenmartError(
            f"a tokenizer.model needs sentencepiece and protobuf ({reason.rstrip('.')}); "
            "`pip install -c requirements.lock sentencepiece protobuf`"
        ) from error
