"""The one console command, and rows of the warehouse in Python (`import tokenmart as tm`).

Rooms are imported only when one of their commands runs or one of their functions is named.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

OUR_PACKAGES = ("analysis", "extract", "plugins", "warehouse")
_IS_PROGRAM = Path((sys.argv or [""])[0]).stem == "tokenmart"


def refuse_hidden_packages(names: Sequence[str]) -> None:
    """Stop where a folder of PYTHONPATH, or the one of a notebook, has a package of our names.

    Args:
        names: those of our packages that are about to be imported.

    Raises:
        ImportError: it has; the message names it.
    """
    here = Path(__file__).resolve().parent
    for name in names:
        try:
            package = importlib.util.find_spec(name)
        except ValueError:  # a test's own module
            continue
        if package is None or package.origin is None:
            continue
        path = Path(package.origin).resolve()
        if path.is_relative_to(here / name):
            continue
        message = (
            f"{path}: is imported in place of Tokenmart's package {name!r}; take its folder out of "
            "PYTHONPATH, or start in another folder"
        )
        if _IS_PROGRAM:
            sys.exit(f"error: {message}")
        raise ImportError(message)


refuse_hidden_packages(OUR_PACKAGES if _IS_PROGRAM else ("plugins", "warehouse"))

from warehouse.errors import missing_package  # noqa: E402
from warehouse.plugins import added, each_of  # noqa: E402

if TYPE_CHECKING:
    from analysis.ranking.ideas import correlate as correlate
    from analysis.report.notebook import open as open
    from analysis.report.shading import show as show
    from warehouse.sql.dataframes import cookbook as cookbook
    from warehouse.sql.dataframes import query as query

FUNCTIONS = {
    "cookbook": "warehouse.sql.dataframes",
    "correlate": "analysis.ranking.ideas",
    "open": "analysis.report.notebook",
    "query": "warehouse.sql.dataframes",
    "show": "analysis.report.shading",
}
"""Name that `import tokenmart` offers → the module that defines it."""

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Set up": {
        "init": ("warehouse.maintenance.cli:init", "Make a workspace outside a checkout."),
        "doctor": ("warehouse.maintenance.cli:doctor", "Check the environment and print remedies."),
        "data": (
            "extract.audit.cli:data",
            "Write a problem file; download, import, check, audit and clean data.",
        ),
    },
    "Extract": {
        "extract": ("extract.cli:extract", "Write per-token statistics of models to Parquet."),
        "recall": ("extract.cli:recall", "Measure the recall target of a problem."),
        "status": ("extract.cli:status", "Show what has been extracted and what is missing."),
    },
    "Query": {
        "dbt": (
            "warehouse.metrics.cli:dbt_command",
            "Run dbt on the metric models (run, build, test, docs …).",
        ),
        "sql": ("warehouse.sql.cli:sql", "Query token statistics and metrics, read-only."),
        "metrics": (
            "warehouse.metrics.cli:metrics",
            "List metrics, variants and formulas.",
        ),
        "show": (
            "analysis.report.cli:show",
            "Show a document with every token shaded.",
        ),
    },
    "Analyse": {
        "preregister": (
            "analysis.preregistration.cli:preregister",
            "Preregister a metric before the target is read.",
        ),
        "correlate": (
            "analysis.ranking.cli:correlate",
            "Rank metrics by correlation with the target.",
        ),
        "select": (
            "analysis.ranking.cli:select",
            "List the metrics that track the target, and the best.",
        ),
        "compare": (
            "analysis.ranking.cli:compare_command",
            "Compare two models by a metric, document by document.",
        ),
        "signature": (
            "analysis.ranking.cli:signature_command",
            "Compare the signature of a number with this workspace.",
        ),
        "report": ("analysis.report.cli:report", "Write the HTML report of a problem."),
        "submit": (
            "analysis.submission.cli:submit",
            "Write a submission and its reproducibility bundle.",
        ),
        "verify": (
            "analysis.submission.cli:verify",
            "Score a submission against the locked target.",
        ),
        "reproduce": (
            "analysis.submission.cli:reproduce",
            "Recompute a submission's scores and compare them.",
        ),
    },
}
"""Group → command → (where its click command lives, short help shown without importing it)."""

COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is called, not for `--help`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands, those of plugins last."""
        return [*COMMANDS, *(name for name in added("commands") if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command, or None when there is no such command."""
        entry = COMMANDS.get(cmd_name) or added("commands").get(cmd_name)
        if entry is None:
            return None
        module, attribute = entry[0].split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the core's commands from the table above, then those of plugins."""
        for group, commands in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name, short) for name, (_, short) in commands.items()])
        for plugin, commands in each_of("tokenmart_commands"):
            if not commands:
                continue
            with formatter.section(f"Plugin: {plugin}"):
                formatter.write_dl([(name, short) for name, (_, short) in commands.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tokenmart")
def cli() -> None:
    """Score tokens once per model, define metrics in SQL, correlate them with a target.

    \b
    Start:     tokenmart doctor
    Demo:      make demo
    Ask SQL:   tokenmart sql --list
    """


if not TYPE_CHECKING:  # a type checker refuses a name that does not exist

    def __getattr__(name: str) -> Any:
        """One of `FUNCTIONS`, imported when it is first named."""
        if name not in FUNCTIONS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        refuse_hidden_packages([FUNCTIONS[name].split(".")[0]])
        try:
            module = importlib.import_module(FUNCTIONS[name])
        except ModuleNotFoundError as error:
            raise missing_package(error) or error from None
        return getattr(module, name)


def __dir__() -> list[str]:
    """Names for completion, those not yet imported among them."""
    return sorted([*globals(), *FUNCTIONS])


def main() -> None:
    """Run the command line; every foreseen failure is one line and an exit code."""
    from warehouse.errors import run

    run(cli, "tokenmart")


if __name__ == "__main__":
    main()
