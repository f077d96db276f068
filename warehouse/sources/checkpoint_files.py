"""Files of a checkpoint: whether all weights are there, and the context it was trained for."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from warehouse.errors import TokenmartError
from warehouse.files import file_stamp

SAFETENSORS = "*.safetensors"
PICKLED = "pytorch_model*.bin"
"""File names of the two kinds of weights; a repository may hold other `.bin` files."""
_SHARD = re.compile(r"(.+)-\d{5}-of-(\d{5})(\.\w+)")
_LARGEST_CONFIG = 16 << 20


def has_weights(folder: Path, pattern: str) -> bool:
    """Whether a folder contains weights of this kind, with every file that belongs to them.

    Those are the files that an index names, or numbered ones without an index, as a download that
    was killed leaves them.

    Raises:
        TokenmartError: an index is damaged.
    """
    files = {path.name for path in folder.glob(pattern)}
    needed: set[str] = set()
    indices = list(folder.glob(f"{pattern}.index.json"))
    for name in () if indices else files:
        if parts := _SHARD.fullmatch(name):
            begin, count, end = parts[1], int(parts[2]), parts[3]
            needed |= {f"{begin}-{n:05d}-of-{count:05d}{end}" for n in range(1, count + 1)}
    for index in indices:
        try:
            needed |= set(json.loads(index.read_bytes())["weight_map"].values())
        except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
            what = f"{index}: no list of weights ({error}); fetch the model again"
            raise TokenmartError(what, code="bad-index", where=index) from error
    return bool(files) and needed <= files


def is_mask_buffer(dtype: str, shape: Sequence[int]) -> bool:
    """Whether a tensor of a safetensors header is a causal mask that an architecture stored.

    GPT-NeoX and GPT-2 wrote theirs, shape (1, 1, n, n), beside the weights; transformers leaves
    them out when it loads a checkpoint.
    """
    return dtype == "BOOL" or (len(shape) == 4 and tuple(shape[:2]) == (1, 1))


def trained_context(path: Path) -> int | None:
    """Longest input in tokens that a folder's config.json or a GGUF file names; None for none.

    `max_position_embeddings` of a configuration, `context_length` of a GGUF header.
    """
    if path.is_file():
        return _gguf_context(path, file_stamp(path))
    value = text_config(path).get("max_position_embeddings")
    return value if isinstance(value, int) and value > 0 else None


@lru_cache(maxsize=256)
def _gguf_context(path: Path, stamp: str) -> int | None:
    fields = getattr(gguf_header(path), "fields", {})
    kind = fields.get("general.architecture")
    found = fields.get(f"{kind.contents()}.context_length") if kind else None
    return int(found.contents()) or None if found else None


def text_config(folder: Path) -> dict[str, Any]:
    """The config.json of a folder, with the values of its text part; empty where there is none."""
    try:
        with (folder / "config.json").open("rb") as file:
            config = json.loads(file.read(_LARGEST_CONFIG))
        return {**config, **config.get("text_config", {})}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def gguf_header(path: Path) -> Any:
    """gguf's reader of a file, whose long arrays are skipped.

    The file is mapped into memory: pages of tensors are never touched. Reading a vocabulary would
    take seconds. None for a file that is no GGUF, and in a light installation, which has no reader.
    """
    try:
        import gguf
    except ModuleNotFoundError:
        return None
    import numpy as np

    longest = 4096
    string, array = gguf.GGUFValueType.STRING, gguf.GGUFValueType.ARRAY

    class HeaderReader(gguf.GGUFReader):  # type: ignore[misc]
        def _get_field_parts(self, start: int, kind: int) -> tuple[int, list[Any], list[int], Any]:
            if kind == array and self.byte_order == "I":
                item, count = struct.unpack_from("<IQ", self.data, start)
                scalar = self.gguf_scalar_to_np.get(gguf.GGUFValueType(item))
                end = start + 12
                if count > longest and scalar is not None:
                    end += count * np.dtype(scalar).itemsize
                elif count > longest and item == string:
                    for _ in range(count):
                        end += 8 + struct.unpack_from("<Q", self.data, end)[0]
                if end > start + 12:
                    return end - start, [], [], [array]
            found: tuple[int, list[Any], list[int], Any] = super()._get_field_parts(start, kind)
            return found

    try:
        return HeaderReader(path)
    except (OSError, ValueError, IndexError, KeyError, OverflowError, struct.error):
        return None
