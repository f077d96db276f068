"""Weights in one GGUF file of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from warehouse.errors import TokenmartError
from warehouse.sources.hashes import remembered_sha256
from warehouse.sources.place import Need, Place
from warehouse.sources.weights.interface import Located, WeightSource


class GgufSource(WeightSource):
    """One GGUF file; weights are dequantised once into the cache."""

    kind: Literal["gguf"]
    path: Path
    sha256: str | None = None

    def locate(self, full_id: str, place: Place) -> Located:
        """The file; its revision is its sha256.

        Raises:
            TokenmartError: missing, or not the file the problem file promises.
        """
        file = place.resolve(self.path)
        if not file.is_file():
            raise TokenmartError(
                f"{full_id}: source.path {file}: no such file; place the GGUF file there or "
                "correct the path"
            )
        found = remembered_sha256(file, place.workspace)
        if self.sha256 not in (None, found):
            raise TokenmartError(
                f"{full_id}: {file}: sha256 is {found}, the problem file expects {self.sha256}; "
                "fetch the file again or correct the problem file"
            )
        return Located(file, found, is_gguf=True)

    def present(self, full_id: str, place: Place) -> Path | None:
        """The file when it is there."""
        file = place.resolve(self.path)
        return file if file.is_file() else None

    def need(self, full_id: str, place: Place) -> Need:
        """The file, which only the user can place."""
        file = place.resolve(self.path)
        remedy = f"place the checkpoint at {file}, or correct source.path in the problem file"
        return Need("models", full_id, file.is_file(), str(file), "local", remedy)
