"""The base of everything that is parsed from a problem file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from warehouse.plugins import kinds


class FileModel(BaseModel):
    """Base of all parsed objects: immutable, unknown keys refused.

    A relative path starts at the folder of its problem file (that of the files in data/problems at
    the checkout).
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False
    )

    @field_validator("*")
    @classmethod
    def _paths_start_at_the_file(cls, value: Any, info: ValidationInfo) -> Any:
        return from_folder(value, info) if isinstance(value, Path) else value


def from_folder(path: Path, info: ValidationInfo) -> Path:
    """A path of a problem file, which starts at the folder of the file."""
    folder: Path | None = (info.context or {}).get("folder")
    path = path.expanduser()
    return path if folder is None else folder / path


def increasing(least: int) -> AfterValidator:
    """The check of a field that its numbers of tokens increase, from the least on."""

    def check(numbers: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        if numbers[0] < least or list(numbers) != sorted(set(numbers)):
            raise ValueError(f"{info.field_name} must increase, from {least} tokens on")
        return numbers

    return AfterValidator(check)


def one_of(kind: str, core: Sequence[type[FileModel]]) -> Any:
    """The type of a field whose `kind` names a class of the core or of a plugin.

    Args:
        kind, core: see `plugins.kinds`.

    Raises:
        TokenmartError: two classes declare one kind.
    """
    known = tuple(kinds(kind, core).values())
    return Annotated[Union[known], Field(discriminator="kind")]  # noqa: UP007
