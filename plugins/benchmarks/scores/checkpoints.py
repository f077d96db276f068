"""Which run, step and tokens the name of a checkpoint stands for: a table that the user corrects.

`tokenmart e2lm collect` writes it next to its output, one row per name. A step that a name states
literally (`step5000`, `checkpoint-500`, `iter_0002000`, `step5000-tokens21B`) is filled in;
everything else is the user's to write. Rows that are there are kept as they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from pydantic import Field

from plugins.benchmarks.scores.plain_rows import Count, Name, PlainRow, as_csv, rows_of
from warehouse.files import write_whole

_STEP = re.compile(
    r"[-_/=,]?(?<![A-Za-z0-9])(?:global_?)?(?:step|checkpoint|iter|ckpt)[-_]?(?P<step>\d+)"
    r"(?:[-_]tokens(?P<tokens>\d+)B)?(?![A-Za-z0-9.])"
)

_EMPTY = ("revision", "revision=main", "subfolder", "peft")
"""Arguments that say nothing more, once the step is taken out."""


class Checkpoint(PlainRow):
    """One checkpoint of a run.

    name: as the results name it. model: the run. tokens: that it was trained on. parameters: of the
    model. size, architecture, recipe: any text, the same for runs to compare (`1b`, `science`).
    """

    name: Name
    model: Name
    step: Count | None = None
    tokens: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    parameters: int | None = Field(default=None, gt=0)
    size: str | None = None
    architecture: str | None = None
    recipe: str | None = None


def stated(name: str, parameters: int | None = None, common: Collection[str] = ()) -> Checkpoint:
    """The checkpoint of a name, with the step and billions of tokens that it states literally.

    Args:
        name: `org/model,revision=step5`, with arguments behind commas.
        parameters: of the model; None if unknown.
        common: arguments that the run's name leaves out.
    """
    matched = next(iter(_STEP.finditer(name)), None)
    rest = name if matched is None else name[: matched.start()] + name[matched.end() :]
    first, *arguments = rest.split(",")
    kept = [each for each in arguments if each not in {*_EMPTY, *common}]
    return Checkpoint(
        name=name,
        model=",".join([first, *kept]) or name,
        step=int(matched["step"]) if matched else None,
        tokens=int(matched["tokens"]) * 1e9 if matched and matched["tokens"] else None,
        parameters=parameters,
    )


def checkpoints(path: Path, parameters: Mapping[str, int | None]) -> dict[str, Checkpoint]:
    """Name → checkpoint, as in the table at `path`, to which the names that it lacks are added.

    Args:
        path: the table; written if it isn't there.
        parameters: name → number of parameters, None if unknown.

    Raises:
        TokenmartError: a row of the table is wrong.
        StorageError: the table can't be written.
    """
    known = {e.name: e for e in rows_of(path, Checkpoint)} if path.is_file() else {}
    common = set.intersection(*(set(name.split(",")[1:]) for name in parameters))
    new = {
        name: stated(name, count, common) for name, count in parameters.items() if name not in known
    }
    merged = known | new
    if new:
        rows = (each.model_dump() for each in merged.values())
        write_whole(path, as_csv(Checkpoint.model_fields, rows))
    return merged
