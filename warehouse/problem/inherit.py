"""Keys that a model of a problem file inherits from the checkpoint named as its `base`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from warehouse.problem.mistakes import Mistake, mistake_at
from warehouse.problem.yaml_file import Location, YamlTree

_OWN = ("full_id", "kind", "note")


@dataclass
class Inherited:
    """Models with the keys that they inherit.

    `mistakes` are bases that are no checkpoint of the file; `places` those whose values are, or
    would be, their base's: what is wrong there is said of the base.
    """

    models: Any
    mistakes: list[Mistake] = field(default_factory=list)
    places: set[Location] = field(default_factory=set)


def inherit(models: Any, fields: Collection[str], tree: YamlTree) -> Inherited:
    """Fill each model that has `base` with the source, family, licence … of that model.

    Args:
        models: the value of `models`, unchecked.
        fields: the keys that a model may have.
        tree: the file's positions of the models.
    """
    if not isinstance(models, list):
        return Inherited(models)
    checkpoints = {
        str(entry.get("full_id")): entry
        for entry in reversed(models)
        if isinstance(entry, dict) and "base" not in entry
    }
    found = Inherited([])
    for index, entry in enumerate(models):
        if not isinstance(entry, dict) or "base" not in entry:
            found.models.append(entry)
            continue
        base = checkpoints.get(str(entry["base"]))
        # a checkpoint without an id is the mistake to name
        if base is None and "None" not in checkpoints:
            known = ", ".join(reversed(checkpoints)) or "none"
            shown = repr(entry["base"])[:100]
            what = f"{shown} is not a checkpoint of this file; use one of {known}"
            found.mistakes.append(mistake_at(tree, ("models", index, "base"), what))
        taken = {key: value for key, value in (base or {}).items() if key not in _OWN}
        keys = {*fields, *taken} - entry.keys() - {"full_id"}
        found.places |= {("models", index, key) for key in keys}
        found.models.append({**taken, **entry})
    return found
