"""Open doors: a kind is a class in a file of its own, found without a list that names the file.

Files are looked for in the package that belongs to a door (`warehouse/probes/`, say), and in the
folder of the same name (`probes/`) inside each folder that $TOKENMART_PLUGINS lists.
"""

from __future__ import annotations

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

from warehouse.errors import TokenmartError

VARIABLE = "TOKENMART_PLUGINS"

Kind = TypeVar("Kind")


def kinds(base: type[Kind], package: ModuleType) -> dict[str, type[Kind]]:
    """Concrete subclasses of `base` by their `kind`, sorted: those of the package, then plugins.

    A kind is the value of the class attribute `kind`, or of a pydantic field `kind: Literal[…]`.

    Args:
        base: the door's interface.
        package: whose modules hold the kinds that ship.

    Raises:
        TokenmartError: a plugin can't be loaded, or two classes claim one kind.
    """
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    for path in plugin_files(package.__name__.rpartition(".")[2]):
        _load(path)
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


def plugin_files(door: str) -> list[Path]:
    """Python files of a door in the folders of $TOKENMART_PLUGINS, in their order."""
    folders = [Path(part) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    return [path for folder in folders for path in sorted((folder / door).glob("*.py"))]


def _load(path: Path) -> None:
    """Import a plugin file once per process, under a name of its own."""
    name = f"tokenmart_plugin_{path.resolve().as_posix().replace('/', '_').removesuffix('.py')}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a stranger's file raises
        del sys.modules[name]
        first = (str(error).splitlines() or [""])[0]
        raise TokenmartError(
            f"{path}: plugin can't be loaded ({type(error).__name__}: {first}); mend it, or take "
            f"its folder out of {VARIABLE}"
        ) from error


def _concrete(base: type[Kind]) -> Iterator[type[Kind]]:
    for cls in base.__subclasses__():
        declares = "kind" in cls.__dict__ or "kind" in inspect.get_annotations(cls)
        if declares and not inspect.isabstract(cls):
            yield cls
        yield from _concrete(cls)
