"""The one console command. Rooms are imported only when one of their commands runs."""

from __future__ import annotations

import importlib
from difflib import get_close_matches

import click

from warehouse.errors import TokenmartError

COMMANDS: dict[str, tuple[str, str]] = {
    "problem": (
        "warehouse.problem.cli:problem",
        "Write a problem file for your own texts and models.",
    ),
    "data": (
        "warehouse.problem.cli:data",
        "Fetch and check what a problem needs; import scores made elsewhere.",
    ),
    "doctor": (
        "warehouse.maintenance.cli:doctor",
        "Check the environment; say what is missing and the remedy.",
    ),
    "extract": ("extract.cli:extract", "Write per-token statistics of models to Parquet."),
    "eval": (
        "extract.benchmarks.cli:eval_command",
        "Run benchmarks of lm-evaluation-harness on models, token by token.",
    ),
    "recall": ("extract.recall.cli:recall", "Measure the recall target of a problem."),
    "merge": (
        "extract.merging.cli:merge",
        "Merge expert models within rules and limits, and make them again.",
    ),
    "status": ("extract.cli:status", "Show what has been extracted and what is missing."),
    "dbt": (
        "warehouse.metrics.cli:dbt_command",
        "Run dbt on the metric models (build, run, test, docs …).",
    ),
    "sql": ("warehouse.sql.cli:sql", "Query token statistics and metrics, read-only."),
    "warehouse": (
        "warehouse.maintenance.cli:warehouse",
        "Look after the Parquet files of the warehouse.",
    ),
    "metrics": (
        "warehouse.metrics.cli:metrics",
        "List metric families, variants and their formulas.",
    ),
    "preregister": (
        "analysis.preregistration.cli:preregister",
        "Say which metric will predict the target, before it is read.",
    ),
    "correlate": ("analysis.ranking.cli:correlate", "Rank metrics by correlation with the target."),
    "select": ("analysis.ranking.cli:select", "Choose a metric by held-out correlation."),
    "submit": (
        "analysis.submission.cli:submit",
        "Write a submission and its reproducibility bundle.",
    ),
    "verify": ("analysis.submission.cli:verify", "Score a submission against the locked target."),
    "reproduce": (
        "analysis.submission.cli:reproduce",
        "Rebuild a submission's scores and compare them.",
    ),
    "report": ("analysis.report.cli:report", "Write the HTML report of a problem."),
    "e2lm": (
        "analysis.e2lm.cli:e2lm",
        "Judge benchmarks by their scores over training.",
    ),
    "rank": (
        "analysis.competition.cli:rank",
        "Rank entries of a competition by mean win rates, with intervals.",
    ),
    "show": (
        "analysis.report.cli:show",
        "Show a document with every token shaded, one model or two.",
    ),
}
"""Command → (where its click command lives, short help shown without importing it)."""

OUR_ROOMS = ("analysis", "extract", "warehouse")


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is called, not for `--help`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands, in the order of the work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command, or None when there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        module_name, attribute = COMMANDS[cmd_name][0].split(":")
        try:
            command = getattr(importlib.import_module(module_name), attribute)
        except ModuleNotFoundError as error:
            missing = error.name or module_name
            if missing.split(".")[0] in OUR_ROOMS:
                raise TokenmartError(
                    f"tokenmart {cmd_name}: not part of this installation (no module {missing}); "
                    "update the checkout"
                ) from error
            raise TokenmartError(
                f"tokenmart {cmd_name}: package {missing!r} is not installed; run `make setup`"
            ) from error
        except AttributeError as error:
            raise TokenmartError(
                f"tokenmart {cmd_name}: not part of this installation ({error}); "
                "update the checkout"
            ) from error
        if not isinstance(command, click.Command):
            raise TypeError(f"{module_name}:{attribute} is not a click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the closest one."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            close = get_close_matches(name, COMMANDS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "see tokenmart --help"
            raise click.UsageError(f"no such command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table above, importing nothing."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, short) for name, (_, short) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tokenmart")
def cli() -> None:
    """Extract per-token log-probs once, define metrics in SQL, correlate them with a target.

    \b
    Start:     tokenmart doctor
    Demo:      make demo
    Ask SQL:   tokenmart sql --list
    """


def main() -> None:
    """Run the command line; every foreseen failure is one line and an exit code."""
    from warehouse.console import run

    run(cli, "tokenmart")


if __name__ == "__main__":
    main()
