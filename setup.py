"""The wheel carries the dbt project and problem files, which `tokenmart init` copies.

Plugins' SQL is in the plugins' own packages (MANIFEST.in).

In a checkout these folders are used in place; nothing is copied for an editable install.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
SHIPPED = (
    "dbt_project",
    "data/problems",
    "data/published",
    "data/preregistered",
)
LEFT_OUT = shutil.ignore_patterns("target", "logs", "*.lock", ".user.yml", "__pycache__")


class WithWorkspace(build_py):
    """Copies what a workspace is made of into `warehouse`; adds the types of the module."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        place = Path(self.build_lib) / "warehouse" / "shipped"
        shutil.rmtree(place, ignore_errors=True)
        for name in SHIPPED:
            source, target = ROOT / name, place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=LEFT_OUT)
            else:
                shutil.copyfile(source, target)
        # a module has no py.typed: type checkers read the types of `tokenmart` from here
        stubs = Path(self.build_lib) / "tokenmart-stubs"
        stubs.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / "tokenmart.py", stubs / "__init__.pyi")


setup(cmdclass={"build_py": WithWorkspace})
