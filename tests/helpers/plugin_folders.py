"""Plugins for tests: code of one class a kind, in a package that $TOKENMART_PLUGINS can name."""

from __future__ import annotations

from pathlib import Path

_HOOK = """
from importlib import import_module
from warehouse.plugins import hookimpl

@hookimpl
def tokenmart_classes(kind):
    if kind not in {kinds}:
        return []
    module = import_module("." + kind, __name__)
    classes = [each for each in vars(module).values() if isinstance(each, type)]
    return [each for each in classes if each.__module__ == module.__name__ and _declares(each)]

def _declares(cls):
    return "kind" in vars(cls) or "kind" in getattr(cls, "model_fields", ())
"""


def write_plugin(folder: Path, **modules: str) -> Path:
    """A package with a module for each kind (`backends=CODE`); returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, code in modules.items():
        (folder / f"{kind}.py").write_text(code, encoding="utf-8")
    (folder / "__init__.py").write_text(_HOOK.replace("{kinds}", repr(set(modules))))
    return folder
