"""What entries of a problem file say of each other: names given twice, pairs that can't be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pydantic_core import PydanticCustomError

from warehouse.probes.probe import Probe

Pairs = tuple[tuple[str, str], ...]
"""Names of two conditions each, the longer context first."""

_Place = tuple[int, str, str]
"""Index of an entry, its key, and what is wrong with the value."""


def refuse_same_models(full_ids: Sequence[str], folders: Sequence[str]) -> None:
    """Stop at models that can't be told apart, by their id or by their folder.

    Raises:
        PydanticCustomError: `places` in its context has the entries.
    """
    seen: dict[str, str] = {}
    found: list[_Place] = []
    for index, (full_id, folder) in enumerate(zip(full_ids, folders, strict=True)):
        other = seen.setdefault(folder, full_id)
        if full_id in full_ids[:index]:
            found.append((index, "full_id", f"model {full_id!r} is listed twice; remove one"))
        elif other != full_id:
            what = (
                f"models {other!r} and {full_id!r} would share the folder {folder!r}; rename one "
                "of them"
            )
            found.append((index, "full_id", what))
    _refuse(found)


def refuse_same_probes(probes: Sequence[Probe]) -> None:
    """Stop at probes that can't be told apart, by their name or by their conditions.

    Raises:
        PydanticCustomError: `places` in its context has the entries.
    """
    _refuse(_repeated(probes))


def _repeated(probes: Sequence[Probe]) -> Iterator[_Place]:
    names: list[str] = []
    made: set[str] = set()
    for index, probe in enumerate(probes):
        conditions = {condition.name for condition in probe.conditions()}
        if probe.name in names:
            what = f"probe {probe.name!r} is listed twice; remove one, or give it another name"
            yield index, "name", what
        elif again := made & conditions:
            what = f"two probes make a condition {min(again)!r}; rename one of them"
            yield index, "name", what
        names.append(probe.name)
        made |= conditions


def refuse_pairs(pairs: Pairs, probes: Sequence[Probe]) -> None:
    """Stop at pairs of conditions that are not of the probes, or compare nothing new.

    Raises:
        ValueError: the first such pair, and why.
    """
    kinds = {c.name: c.kind for probe in probes for c in probe.conditions()}
    for pair in pairs:
        for name in pair:
            if name not in kinds:
                raise ValueError(f"names {name!r}; the conditions are: {', '.join(kinds)}")
            if kinds[name].repeats_positions:
                raise ValueError(f"{name!r} scores a token several times; leave it out")
        made_already = tuple(kinds[name].name for name in pair) == ("full", "window")
        if pair[0] == pair[1] or pairs.count(pair) > 1 or made_already:
            raise ValueError(f"{list(pair)} says nothing new; leave it out")


def _refuse(places: Iterable[_Place]) -> None:
    if found := list(places):
        what = "; ".join(what for _, _, what in found)
        raise PydanticCustomError("listed_twice", "{what}", {"what": what, "places": found})
