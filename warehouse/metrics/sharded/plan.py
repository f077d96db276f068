"""Which models share a shard, and what a shard reads of models that are another's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from warehouse.errors import StorageError
from warehouse.paths import Workspace
from warehouse.store.share import DIVIDED, Part, Share

if TYPE_CHECKING:
    import duckdb

Model = tuple[str, str]
"""Problem and model_id."""

GUESTS = """
    -- a document's tokenisation is read once, in one model of those that share the tokenizer
    select distinct
        units.problem,
        units.model_id,
        hosts.model_id as guest,
        hosts.condition
    from intermediate.int_units as units
    inner join intermediate.int_tokenisations as hosts
        on units.tokenisation_id = hosts.tokenisation_id

    union

    -- the key tokens of one model are looked up in all others
    select distinct
        units.problem,
        units.model_id,
        pairs.model_id as guest,
        unnest([pairs.long_condition, pairs.short_condition]) as condition
    from intermediate.int_evaluator_units as evaluators
    inner join intermediate.int_pair_units as pairs
        on evaluators.evaluator_unit_id = pairs.unit_id
    inner join intermediate.int_full_units as units
        on evaluators.problem = units.problem
        and evaluators.doc_id = units.doc_id
"""
"""Exchange by reading: rows of a model that another's metrics need, from the store itself.

The other exchange is int_text_ends: regions in characters end where the shortest tokenisation of
any model does. It is small, computed once and given to every shard.
"""


@dataclass(frozen=True)
class Shard:
    """Some models, and the conditions of others' that their metrics read."""

    number: int
    models: tuple[Model, ...]
    guests: tuple[Part, ...] = ()

    @property
    def share(self) -> Share:
        """What its build reads."""
        own = [(problem, model_id, None) for problem, model_id in self.models]
        return Share((*own, *self.guests))


def model_sizes(workspace: Workspace) -> dict[Model, int]:
    """Bytes of each model's token files, benchmarks' included."""
    sizes: dict[Model, int] = {}
    for table in DIVIDED:
        for path in (workspace.store / table).glob("problem=*/model_id=*/condition=*/*.parquet"):
            problem, model_id = (part.partition("=")[2] for part in path.parts[-4:-2])
            sizes[problem, model_id] = sizes.get((problem, model_id), 0) + path.stat().st_size
    return sizes


def assign_models(
    sizes: Mapping[Model, int],
    tokenizers: Mapping[Model, str],
    shards: int,
    before: Sequence[Sequence[Model]] = (),
) -> list[list[Model]]:
    """Divide models among shards of about equal size; models that share a tokenizer lie together.

    Args:
        sizes: bytes of each model.
        tokenizers: of each model; one that has none counts as a tokenizer of its own.
        shards: how many; some stay empty when there are fewer models.
        before: the last division. With as many shards, models stay where they were, and each new
            one goes to the smallest shard: what is built of the others stays good.
    """
    if len(before) == shards:
        divided = [[model for model in part if model in sizes] for part in before]
        placed = {model for part in divided for model in part}
        for model in sorted(sizes.keys() - placed):
            smallest = min(divided, key=lambda part: sum(sizes[known] for known in part))
            smallest.append(model)
        return divided
    divided = [[] for _ in range(shards)]
    total, so_far = sum(sizes.values()), 0
    for model in sorted(sizes, key=lambda one: (one[0], tokenizers.get(one, ""), one[1])):
        middle = so_far + sizes[model] / 2
        divided[min(shards - 1, int(middle * shards / max(total, 1)))].append(model)
        so_far += sizes[model]
    return divided


def last_division(path: Path) -> list[list[Model]]:
    """The division that `remember_division` wrote; empty without one.

    Raises:
        StorageError: the file is none of ours.
    """
    try:
        parts = json.loads(path.read_bytes())
        return [[(problem, model_id) for problem, model_id in part] for part in parts]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as error:
        raise StorageError(
            f"{path}: can't be read ({error}); delete it: models are divided anew, and shards "
            "built again"
        ) from error


def with_guests(
    connection: duckdb.DuckDBPyConnection, divided: Sequence[Sequence[Model]]
) -> list[Shard]:
    """The shards that have models, each with what it reads of others'.

    Args:
        connection: to a database in which the tables that GUESTS names are built.
        divided: models of each shard.
    """
    needed: dict[Model, list[tuple[str, str]]] = {}
    for problem, model_id, guest, condition in connection.execute(GUESTS).fetchall():
        needed.setdefault((problem, model_id), []).append((guest, condition))
    shards = []
    for number, models in enumerate(divided, 1):
        own = set(models)
        guests = {
            (model[0], guest, condition)
            for model in models
            for guest, condition in needed.get(model, ())
            if (model[0], guest) not in own
        }
        if models:
            shards.append(Shard(number, tuple(sorted(models)), tuple(sorted(guests))))
    return shards
