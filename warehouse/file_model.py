"""The base of everything that is parsed from a problem file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from warehouse.plugins import kinds
from warehouse.terminal import counted

LARGEST_NUMBER = 2**31 - 1
_LONGEST_NAME = 255


class FileModel(BaseModel):
    """Base of all parsed objects: immutable, unknown keys refused.

    A relative path starts at the folder of its problem file (that of the files in data/problems at
    the checkout). Whole numbers are at most 2³¹ − 1, but those of the fields in `may_be_huge`.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False
    )

    may_be_huge: ClassVar[frozenset[str]] = frozenset()

    @field_validator("*")
    @classmethod
    def _fits_its_machine(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Path):
            return from_folder(value, info)
        if info.field_name not in cls.may_be_huge:
            for each in value if isinstance(value, tuple) else (value,):
                if type(each) is int and abs(each) > LARGEST_NUMBER:
                    raise ValueError(f"must be between -{LARGEST_NUMBER:,} and {LARGEST_NUMBER:,}")
        return value


def from_folder(path: Path, info: ValidationInfo) -> Path:
    """A path of a problem file, which starts at the folder of the file.

    Raises:
        ValueError: a part of it is too long, or `~` isn't known.
    """
    folder: Path | None = (info.context or {}).get("folder")
    if any(len(part.encode()) > _LONGEST_NAME for part in path.parts):
        raise ValueError(f"a name of more than {_LONGEST_NAME} bytes can't be that of a file")
    try:
        path = path.expanduser()
    except RuntimeError as error:
        raise ValueError("~ is not a known home folder here; write the path out") from error
    return path if folder is None else folder / path


def increasing(least: int) -> AfterValidator:
    """The check of a field that its numbers of tokens increase, from the least on."""

    def check(numbers: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        if numbers[0] < least or list(numbers) != sorted(set(numbers)):
            raise ValueError(f"{info.field_name} must increase, from {counted(least, 'token')} on")
        return numbers

    return AfterValidator(check)


def one_of(base: type[FileModel], kind: str) -> Any:
    """The type of a field whose `kind` names a subclass of `base`, of the core or of a plugin.

    Args:
        kind: see `plugins.kinds`.

    Raises:
        TokenmartError: a plugin can't be imported, or two classes declare one kind.
    """
    known = tuple(kinds(base, kind).values())
    return Annotated[Union[known], Field(discriminator="kind")]  # noqa: UP007
