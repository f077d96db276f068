"""Generate the reference pages of the documentation site from the code.

Commands come from click, keys of problem files from pydantic, tables and columns from the schema
of the store, metrics from their descriptions, Python functions from their
docstrings (mkdocstrings). Nothing is written by hand, so the pages are always up to date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
import pyarrow as pa
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from tokenmart import FUNCTIONS, cli
from warehouse.metrics.manifest import read_metrics
from warehouse.paths import Workspace, find_workspace
from warehouse.plugins import kinds
from warehouse.problem.problem_files import ProblemKind
from warehouse.problem.spec import Problem
from warehouse.store.ledger import DECIDED, UNITS
from warehouse.store.schema import Table, all_tables
from warehouse.terminal import counted

ROOT = Path(__file__).resolve().parents[1]


def navigation() -> list[Any]:
    """Entries of the site's navigation, below 'Reference'."""
    commands = [f"reference/cli/{name}.md" for name, _ in top_commands()]
    return [
        {"Command line": ["reference/cli/index.md", *commands]},
        "reference/problem_file.md",
        "reference/tables.md",
        "reference/metrics.md",
        "reference/python.md",
    ]


@cache
def pages() -> dict[str, str]:
    """Path on the site → Markdown, for every generated page."""
    return {
        "reference/cli/index.md": command_index(),
        **{f"reference/cli/{name}.md": command_page(name, each) for name, each in top_commands()},
        "reference/problem_file.md": problem_page(),
        "reference/tables.md": tables_page(),
        "reference/metrics.md": metrics_page(),
        "reference/python.md": python_page(),
    }


def top_commands() -> list[tuple[str, click.Command]]:
    """The commands of `tokenmart`, plugins' last."""
    context = click.Context(cli)
    commands = [(name, cli.get_command(context, name)) for name in cli.list_commands(context)]
    return [(name, command) for name, command in commands if command is not None]


def command_index() -> str:
    """The table of all commands."""
    lines = ["# Commands", "", f"{_first(cli.help)}", "", "| command | what it does |", "|---|---|"]
    for name, command in top_commands():
        lines.append(f"| [`tokenmart {name}`]({name}.md) | {command.get_short_help_str(200)} |")
        if isinstance(command, click.Group):
            for below, subcommand in command.commands.items():
                link = f"[`tokenmart {name} {below}`]({name}.md#tokenmart-{name}-{below})"
                lines.append(f"| {link} | {subcommand.get_short_help_str(200)} |")
    return "\n".join([*lines, ""])


def command_page(name: str, command: click.Command) -> str:
    """The help of a command and of its subcommands."""
    path = f"tokenmart {name}"
    commands = {path: command}
    if isinstance(command, click.Group):
        commands |= {
            f"{path} {below}": subcommand for below, subcommand in command.commands.items()
        }
    lines = []
    for subcommand_path, subcommand in commands.items():
        context = click.Context(subcommand, info_name=subcommand_path, terminal_width=100)
        level = "#" if subcommand is command else "##"
        lines += [
            f"{level} {subcommand_path}",
            "",
            "```text",
            subcommand.get_help(context),
            "```",
            "",
        ]
    return "\n".join(lines)


def problem_page() -> str:
    """Keys of problem files, model by model."""
    text = [
        "# Problem file",
        "",
        "A problem file (YAML) names the models, documents, probes and target that belong "
        "together. `tokenmart data new` writes one. All errors in it are reported together, with "
        "line numbers. Relative paths start at the folder of the file; those of the files in "
        "`data/problems` start at the checkout.",
        "",
    ]
    roots: list[tuple[str, type[BaseModel]]] = [("A problem", Problem)]
    known: dict[str, type[ProblemKind]] = kinds("problem_kinds")
    for name, kind in sorted(known.items()):
        roots.append((f"A problem of kind {name}", kind.keys))
    seen: set[type[BaseModel]] = set()
    for title, model in roots:
        text += _model(title, model, seen)
    return "\n".join(text)


def _model(title: str, model: type[BaseModel], seen: set[type[BaseModel]]) -> list[str]:
    """A section for a model, then one for each model in its fields."""
    if model in seen:
        return []
    seen.add(model)
    lines = [f"## {title}", "", _docstring(model), ""]
    described = any(field.description for field in model.model_fields.values())
    lines += ["| key | type | default |", "|---|---|---|"]
    if described:
        lines[-2:] = ["| key | type | default | meaning |", "|---|---|---|---|"]
    below: list[tuple[str, type[BaseModel]]] = []
    for name, field in model.model_fields.items():
        if field.exclude:
            continue
        default = "required" if field.is_required() else _default(field)
        meaning = f" {_cell(field.description or '')} |" if described else ""
        lines.append(f"| `{name}` | {_cell(_type(field))} | {default} |{meaning}")
        for part in _models_in(field.annotation):
            kind = part.model_fields.get("kind")
            literal = kind is not None and get_origin(kind.annotation) is Literal
            choice = get_args(kind.annotation) if kind and literal else ()
            label = f"{name}: kind {choice[0]}" if choice else name
            below.append((f"{label}", part))
    lines.append("")
    for label, part in below:
        lines += _model(label, part, seen)
    return lines


def _docstring(model: type[BaseModel]) -> str:
    """The docstring as running text, without the indentation of its lines."""
    return "\n".join(line.strip() for line in (model.__doc__ or "").strip().splitlines())


def _default(field: FieldInfo) -> str:
    value = field.default
    if field.default_factory is not None or value is PydanticUndefined:
        return ""
    if value is None or value in ((), ""):
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _type(field: FieldInfo) -> str:
    limits = [
        f"{sign} {value}"
        for name, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
        for constraint in field.metadata
        if (value := getattr(constraint, name, None)) is not None
    ]
    return ", ".join([_type_name(field.annotation), *limits])


def _type_name(annotation: Any) -> str:
    """A type in words: `int`, `list of text`, `a | b`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_name(arguments[0])
    if origin is Literal:
        return " or ".join(f"`{each}`" for each in arguments)
    if origin in (Union, UnionType):
        names = [_type_name(each) for each in arguments if each is not type(None)]
        return " or ".join(dict.fromkeys(names))
    if origin in (tuple, list):
        inner = [each for each in arguments if each is not Ellipsis]
        return f"list of {' and '.join(dict.fromkeys(_type_name(each) for each in inner))}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"mapping of {_type_name(arguments[0])} to {_type_name(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    plain = {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "path"}
    return plain.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def tables_page() -> str:
    """Tables of the store, from the schema that files are written in."""
    lines = [
        "# Tables of the store",
        "",
        "Parquet files below `data/`, one folder for each table, partitioned by the keys in the "
        "path (`data/tokens/problem=…/model_id=…/condition=…`). `tokenmart sql` reads them in "
        "place. `units` is the ledger; it is stored in the files' footers.",
        "",
    ]
    for name, table in {
        **all_tables(),
        "units": Table(pa.unify_schemas([UNITS, DECIDED]), (), ""),
    }.items():
        lines += [f"## {name}", ""]
        if table.keys:
            lines += [f"Partition keys: {', '.join(f'`{key}`' for key in table.keys)}.", ""]
        lines += ["| column | type | meaning |", "|---|---|---|"]
        for field in table.schema:
            meaning = (field.metadata or {}).get(b"description", b"").decode()
            null = "; may be null" if field.nullable else ""
            lines.append(f"| `{field.name}` | {field.type} | {_cell(meaning + null)} |")
        lines.append("")
    return "\n".join(lines)


def metrics_page(workspace: Workspace | None = None) -> str:
    """Every metric with formula, description and variants."""
    lines = [
        "# Metrics",
        "",
        "A metric is one SQL file, `dbt_project/models/metrics/<metric>.sql`, with the text of "
        "this page in the YAML beside it. `tokenmart dbt run` builds the core variants; the "
        "variable `grids` "
        "adds the others. `tokenmart metrics list` prints the same list.",
        "",
    ]
    metrics = read_metrics(workspace or find_workspace(ROOT)).values()
    for heading in sorted({metric.family for metric in metrics}):
        lines += [f"## {heading[:1].upper()}{heading[1:]}", ""]
        for metric in metrics:
            if metric.family != heading:
                continue
            facts = [
                f"{metric.direction} is better",
                f"computed from the probe `{metric.needs}`",
                "admissible" if metric.admissible else "not admissible in a submission",
            ]
            core = sum(settings["core"] for settings in metric.variants.values())
            counts = f"{counted(len(metric.variants), 'variant')}, {core} of them core."
            lines += [f"### {metric.name}", "", f"*{'; '.join(facts)}.* {counts}", ""]
            lines += [metric.description, ""]
    return "\n".join(lines)


def python_page() -> str:
    """The functions of `import tokenmart`."""
    lines = [
        "# Python",
        "",
        "`import tokenmart as tm` reads the warehouse of this checkout, or of the one that "
        "`$TOKENMART_HOME` names; see [Use notebooks](../how_to/notebooks.md).",
        "",
    ]
    for name, module in sorted(FUNCTIONS.items()):
        lines += [f"::: {module}.{name}", "    options:", f"      heading: tokenmart.{name}", ""]
    return "\n".join(lines)


def _first(text: str | None) -> str:
    return _cell((text or "").split("\n\n")[0])


def _cell(text: str) -> str:
    """Text for a cell of a Markdown table; a | in code needs no escape."""
    parts = re.split(r"(`[^`]*`)", _escaped(" ".join(text.split())))
    return "".join(part if part.startswith("`") else part.replace("|", r"\|") for part in parts)


def _escaped(text: str) -> str:
    """Text in which no <…> is HTML and no * is emphasis, code excepted."""
    parts = re.split(r"(`[^`]*`)", text)
    for index in range(0, len(parts), 2):
        parts[index] = parts[index].replace("<", "&lt;").replace("*", r"\*").replace("_", r"\_")
    return "".join(parts)
