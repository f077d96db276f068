"""Requests that are refused before anything runs: unknown tokens, caches that can't fit."""

from __future__ import annotations

from collections.abc import Iterable

from extract.device_errors import DoesNotFitError
from warehouse.errors import TokenmartError
from warehouse.probes.request import Request


def refuse_unknown_ids(requests: Iterable[Request], rows: int) -> None:
    """Stop before the device does: on a GPU an id without embeddings ends the process.

    Args:
        requests: to be scored.
        rows: of the embeddings.

    Raises:
        TokenmartError: a text has a token for which the model has no embeddings.
    """
    for request in requests:
        largest = max(int(ids.max(initial=0)) for ids in (request.ids, request.prefix))
        if largest >= rows:
            raise TokenmartError(
                f"a text has token {largest}, and the model has embeddings for {rows} tokens; "
                "remove this special token from the text, or take the tokenizer that was "
                "trained with these weights"
            )


def refuse_large_caches(requests: Iterable[Request], bytes_per_token: int, free: int) -> None:
    """Stop early if the keys and values of a shared prefix alone exceed the free memory.

    Args:
        requests: to be scored, of which those with a prefix share its cache.
        bytes_per_token: of the KV cache.
        free: bytes that the device can still give.

    Raises:
        DoesNotFitError: they are; what shares no prefix may still fit.
    """
    tokens = max((len(r.prefix) + len(r.ids) for r in requests if r.prefix_length), default=0)
    if tokens * bytes_per_token > free:
        raise DoesNotFitError(
            f"the KV cache of {tokens:,} tokens needs {tokens * bytes_per_token / 2**30:.1f} GiB, "
            f"and {free / 2**30:.1f} GiB are free in addition to the weights; leave out probes "
            "that continue whole documents (choose with --probe), or use fewer --max-tokens, "
            "--device auto-map or a larger GPU"
        )
