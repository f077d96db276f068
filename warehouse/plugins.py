"""Plugins: what a folder adds to the core, found without a list that names it.

Plugin folders are those of `plugins/`, which ship, and those that $TOKENMART_PLUGINS lists. Both
are read in the same way. A file in the sub-folder `probes/` adds a kind of probe; likewise
`documents/`, `weights/`, `backends/`, `importers/`, `commands/`, `problem_kinds/`,
`next_steps/`, `schedulers/`, `stores/`, `tables/`, `superseded/` and `cookbook/`.
docs/how_to/write_a_plugin.md lists their interfaces.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeVar, get_args

from warehouse.errors import TokenmartError, first_line

VARIABLE = "TOKENMART_PLUGINS"
SHIPPED = Path(__file__).parents[1] / "plugins"

Kind = TypeVar("Kind")


def kinds(base: type[Kind], place: ModuleType | str) -> dict[str, type[Kind]]:
    """Concrete subclasses of `base` by their `kind`, sorted: those of the core, then plugins'.

    A kind is the value of the class attribute `kind`, or of a pydantic field `kind: Literal[…]`.

    Args:
        place: the core's package whose modules define kinds, and whose last name is the plugins'
            sub-folder; or only the name of the sub-folder, where the core's are imported already.

    Raises:
        TokenmartError: a plugin can't be loaded, or two classes claim one kind.
    """
    if isinstance(place, ModuleType):
        for module in pkgutil.iter_modules(place.__path__, f"{place.__name__}."):
            importlib.import_module(module.name)
        place = place.__name__.rpartition(".")[2]
    for path in plugin_files(place):
        load(path)
    found: dict[str, type[Kind]] = {}
    for cls in _concrete(base):
        kind = kind_of(cls)
        if kind in found:
            both = f"{inspect.getfile(found[kind])} and {inspect.getfile(cls)}"
            raise TokenmartError(f"kind {kind!r} is defined twice, in {both}; rename one")
        found[kind] = cls
    return dict(sorted(found.items()))


def kind_of(cls: type) -> str:
    """The kind that a class declares."""
    field = getattr(cls, "model_fields", {}).get("kind")
    if field is not None:
        return str(get_args(field.annotation)[0])
    return str(cls.__dict__["kind"])


def folders() -> list[Path]:
    """Plugin folders: those of `plugins/` by name, then those of $TOKENMART_PLUGINS in order."""
    given = [Path(part) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    return [*sorted(file.parent for file in SHIPPED.glob("*/__init__.py")), *given]


def plugin_files(sub_folder: str) -> list[Path]:
    """Python files in a sub-folder of every plugin folder, in order."""
    found = [path for folder in folders() for path in sorted((folder / sub_folder).glob("*.py"))]
    return [path for path in found if path.name != "__init__.py"]


def summary(path: Path) -> str:
    """First line of a Python file's docstring; the file is not imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def load(path: Path) -> ModuleType:
    """Import a plugin file once per process.

    Raises:
        TokenmartError: it can't be imported.
    """
    if path.is_relative_to(SHIPPED):
        inside = path.relative_to(SHIPPED.parent).with_suffix("")
        return importlib.import_module(".".join(inside.parts))
    name = f"tokenmart_plugin_{path.resolve().as_posix().replace('/', '_').removesuffix('.py')}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a user's file raises
        del sys.modules[name]
        raise TokenmartError(
            f"{path}: plugin can't be loaded ({type(error).__name__}: {first_line(error)}); "
            f"correct it, or remove its folder from {VARIABLE}"
        ) from error
    return module


def _concrete(base: type[Kind]) -> Iterator[type[Kind]]:
    for cls in base.__subclasses__():
        declares = "kind" in cls.__dict__ or "kind" in inspect.get_annotations(cls)
        if declares and not inspect.isabstract(cls):
            yield cls
        yield from _concrete(cls)
