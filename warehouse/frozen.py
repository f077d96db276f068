"""The base of everything parsed from a problem file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar, Union, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from warehouse.plugins import kinds

LARGEST_NUMBER = 2**31 - 1
_LONGEST_NAME = 255


class Frozen(BaseModel):
    """Base of all parsed objects: immutable, unknown keys refused.

    A relative path starts at the folder of its problem file (that of the files in data/problems at
    the checkout). Whole numbers are at most 2³¹ − 1, but those of the fields in `may_be_huge`.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False
    )

    may_be_huge: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _has_no_truth_value_for_a_number(cls, content: Any) -> Any:
        """pydantic takes `yes` and `true` for 1; it refuses the words, with field and line."""
        if not isinstance(content, dict):
            return content
        return {name: cls._without_truth_value(name, value) for name, value in content.items()}

    @classmethod
    def _without_truth_value(cls, name: Any, value: Any) -> Any:
        each = value if isinstance(value, (list, tuple)) else [value]
        if name not in cls.model_fields or not any(type(one) is bool for one in each):
            return value
        wanted = set(_types(cls.model_fields[name].annotation))
        if bool in wanted or not wanted & {int, float}:
            return value
        words = [str(one).lower() if type(one) is bool else one for one in each]
        return words if isinstance(value, (list, tuple)) else words[0]

    @field_validator("*")
    @classmethod
    def _fits_its_machine(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Path):
            return _placed(value, (info.context or {}).get("folder"))
        if type(value) is int and info.field_name not in cls.may_be_huge:
            _refuse_huge(value)
        elif isinstance(value, tuple):
            for each in value:
                if type(each) is int:
                    _refuse_huge(each)
        return value


def _types(annotation: Any) -> Iterator[Any]:
    """The types in an annotation: `tuple[int, ...] | None` has int and None."""
    parts = get_args(annotation)
    if not parts:
        yield annotation
    for part in parts:
        yield from _types(part)


def _placed(path: Path, folder: Path | None) -> Path:
    if any(len(part.encode()) > _LONGEST_NAME for part in path.parts):
        raise ValueError(f"a name of more than {_LONGEST_NAME} bytes can't be that of a file")
    try:
        path = path.expanduser()
    except RuntimeError as error:
        raise ValueError("~ is not a known home folder here; write the path out") from error
    return path if folder is None else folder / path


def _refuse_huge(number: int) -> None:
    if abs(number) > LARGEST_NUMBER:
        raise ValueError(f"must be between -{LARGEST_NUMBER:,} and {LARGEST_NUMBER:,}")


def one_of(base: type[Frozen], place: ModuleType | str) -> Any:
    """The type of a field whose `kind` names a subclass of `base`, of the core or of a plugin.

    Args:
        place: see `plugins.kinds`.

    Raises:
        TokenmartError: a plugin can't be loaded, or two classes claim one kind.
    """
    known = tuple(kinds(base, place).values())
    return Annotated[Union[known], Field(discriminator="kind")]  # noqa: UP007
