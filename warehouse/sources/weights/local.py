"""Weights in a folder of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from warehouse.errors import TokenmartError
from warehouse.sources.hashes import files_sha256
from warehouse.sources.place import Need, Place
from warehouse.sources.weights.interface import Located, WeightSource

_HASHED = (".safetensors", ".json", ".model")


class LocalSource(WeightSource):
    """A folder with a config, a tokenizer and safetensors weights."""

    kind: Literal["local"]
    path: Path
    pickled: bool = False
    trust_remote_code: bool = False

    def locate(self, full_id: str, place: Place) -> Located:
        """The folder; its revision is the hash of its files.

        Raises:
            TokenmartError: no configuration, or no safetensors weights in it.
        """
        folder = place.resolve(self.path)
        if not (folder / "config.json").is_file():
            raise TokenmartError(
                f"{full_id}: source.path {folder} holds no config.json; give a folder written by "
                "save_pretrained"
            )
        if not list(folder.glob("*.safetensors")):
            raise TokenmartError(
                f"{full_id}: source.path {folder} holds no .safetensors weights; convert them with "
                "save_pretrained (pickled weights are not loaded)"
            )
        files = [path for path in sorted(folder.iterdir()) if path.suffix in _HASHED]
        return Located(folder, files_sha256(files, place.workspace))

    def present(self, full_id: str, place: Place) -> Path | None:
        """The folder when it holds a configuration."""
        folder = place.resolve(self.path)
        return folder if (folder / "config.json").is_file() else None

    def need(self, full_id: str, place: Place) -> Need:
        """The folder, which only the user can place."""
        folder = place.resolve(self.path)
        remedy = f"place the checkpoint at {folder}, or correct source.path in the problem file"
        present = self.present(full_id, place) is not None
        return Need("models", full_id, present, str(folder), "local", remedy)
