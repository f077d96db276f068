"""Plugins: packages outside the core, and the hooks of pluggy by which they add to it.

A plugin is a module or a package with functions that carry `@hookimpl` and are named as those of
`Hooks`: a folder of `plugins/`, the module of an installed distribution's entry point in the group
`tokenmart`, or a file or folder that $TOKENMART_PLUGINS names. It is imported when Tokenmart
starts; what is slow to import belongs inside its functions.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, get_args

import pluggy

from warehouse.errors import TokenmartError

VARIABLE = "TOKENMART_PLUGINS"
GROUP = "tokenmart"
SHIPPED = Path(__file__).parents[1] / "plugins"

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)
Kind = TypeVar("Kind")


class Hooks:
    """What a plugin may add; each function is optional.

    The prefix keeps a function apart from a sub-package of the plugin, which Python would put in
    its place.
    """

    @hookspec
    def tokenmart_commands(self) -> dict[str, tuple[str, str]]:  # type: ignore[empty-body]
        """Command → (`module:name` of its click command, its help in a few words)."""

    @hookspec
    def tokenmart_classes(self, kind: str) -> list[type]:  # type: ignore[empty-body]
        """Classes of a kind.

        Args:
            kind: `probes`, `documents`, `weights`, `importers`,
                `problem_kinds`; docs/how_to/write_a_plugin.md has their base classes.
        """

    @hookspec
    def tokenmart_tables(self) -> dict[str, Any]:  # type: ignore[empty-body]
        """Tables of the store by name, each a `warehouse.store.schema.Table`."""


def manager() -> pluggy.PluginManager:
    """All plugins, registered."""
    return _manager(os.environ.get(VARIABLE, ""))


@cache
def _manager(listed: str) -> pluggy.PluginManager:
    plugins = pluggy.PluginManager(GROUP)
    plugins.add_hookspecs(Hooks)
    for file in sorted(SHIPPED.glob("*/__init__.py")):
        name = file.parent.name
        plugins.register(importlib.import_module(f"{SHIPPED.name}.{name}"), name)
    plugins.load_setuptools_entrypoints(GROUP)
    for part in filter(None, listed.split(os.pathsep)):
        plugins.register(_imported(Path(part)), Path(part).stem)
    return plugins


def _imported(path: Path) -> ModuleType:
    """The module of a file or folder outside the path of imports."""
    file = path / "__init__.py" if path.is_dir() else path
    name = f"tokenmart_plugin_{path.resolve().as_posix().replace('/', '_').removesuffix('.py')}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file}: not a Python file; correct {VARIABLE}")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def folders() -> list[Path]:
    """Folders of the plugins that are packages, in order: for their SQL."""
    modules = [module for _, module in manager().list_name_plugin()]
    packages = [each for each in modules if hasattr(each, "__path__")]
    return [Path(str(getattr(each, "__file__", ""))).parent for each in packages]


def foreign_plugins() -> list[str]:
    """Names of the plugins that are not among those that ship."""
    named = manager().list_name_plugin()
    return sorted(
        name
        for name, module in named
        if not Path(str(getattr(module, "__file__", ""))).is_relative_to(SHIPPED)
    )


def each_of(hook: str, **arguments: Any) -> Iterator[tuple[str, Any]]:
    """Name of each plugin that has a function of this name, and what it returns."""
    for implementation in getattr(manager().hook, hook).get_hookimpls():
        yield implementation.plugin_name, implementation.function(**arguments)


def added(hook: str) -> dict[str, Any]:
    """The entries that all plugins return, together.

    Args:
        hook: `commands` or `tables`.
    """
    return {
        name: entry
        for _, entries in each_of(f"tokenmart_{hook}")
        for name, entry in entries.items()
    }


def kinds(kind: str, core: Sequence[type[Kind]] = ()) -> dict[str, type[Kind]]:
    """Classes by the `kind` that they declare, sorted: the core's and those of plugins.

    Args:
        kind: what plugins are asked for, see `Hooks.tokenmart_classes`.
        core: the core's classes of it.

    Raises:
        TokenmartError: two classes declare one kind.
    """
    added_classes = chain.from_iterable(manager().hook.tokenmart_classes(kind=kind))
    class_of: dict[str, type[Kind]] = {}
    for cls in (*core, *added_classes):
        name = kind_of(cls)
        if class_of.setdefault(name, cls) is not cls:
            raise TokenmartError(f"two classes of kind {name!r}", code="kind-twice", where=name)
    return dict(sorted(class_of.items()))


def kind_of(cls: type) -> str:
    """The value of the class attribute `kind`, or of a pydantic field `kind: Literal[…]`."""
    field = getattr(cls, "model_fields", {}).get("kind")
    return str(get_args(field.annotation)[0] if field is not None else cls.__dict__["kind"])
