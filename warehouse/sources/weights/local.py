"""Weights in a folder of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from warehouse.errors import TokenmartError
from warehouse.sources.hashes import files_sha256
from warehouse.sources.place import Need, Place
from warehouse.sources.weights.interface import (
    PICKLED,
    SAFETENSORS,
    Located,
    WeightSource,
    has_weights,
    refuse_missing_shards,
)

_HASHED = (".safetensors", ".json", ".model")


class LocalSource(WeightSource):
    """A folder with a configuration, a tokenizer and safetensors weights or, if allowed, pickled
    ones."""

    kind: Literal["local"]
    path: Path
    pickled: bool = False
    trust_remote_code: bool = False

    def locate(self, full_id: str, place: Place) -> Located:
        """The folder; its revision is the hash of its files.

        Raises:
            TokenmartError: no configuration, no safetensors weights in it, or not all of them.
        """
        folder = place.resolve(self.path)
        if not (folder / "config.json").is_file():
            raise TokenmartError(
                f"{full_id}: source.path {folder} contains no config.json; give a folder written "
                "by save_pretrained"
            )
        safe = has_weights(folder, SAFETENSORS)
        if not safe and not (self.pickled and has_weights(folder, PICKLED)):
            for pattern in (SAFETENSORS, PICKLED) if self.pickled else (SAFETENSORS,):
                refuse_missing_shards(f"{full_id}: source.path {folder}", folder, pattern)
            remedy = (
                "" if self.pickled else ", or allow pickled ones with `pickled: true` in source"
            )
            raise TokenmartError(
                f"{full_id}: source.path {folder} contains no .safetensors weights; "
                f"convert them with save_pretrained{remedy}"
            )
        hashed = _HASHED if safe else (".bin", *_HASHED)
        files = [path for path in sorted(folder.iterdir()) if path.suffix in hashed]
        revision = files_sha256(files, place.workspace)
        return Located(folder, revision, is_pickled=not safe)

    def present(self, full_id: str, place: Place) -> Path | None:
        """The folder when it contains a configuration."""
        folder = place.resolve(self.path)
        return folder if (folder / "config.json").is_file() else None

    def need(self, full_id: str, place: Place) -> Need:
        """The folder, which only the user can place."""
        folder = place.resolve(self.path)
        remedy = f"place the checkpoint at {folder}, or correct source.path in the problem file"
        present = self.present(full_id, place) is not None
        return Need("models", full_id, present, str(folder), "local", remedy)
