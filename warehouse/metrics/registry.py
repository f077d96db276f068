"""Which metric families there are: models of two folders, each with variants and a place in a list.

A family is a model in models/marts/metrics or models/marts/custom that `meta: metric:` declares in
the folder's YAML. dbt needs the parents of `metric_documents` while it parses, when it doesn't
know yet which models exist: so that model lists the families.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warehouse.errors import TokenmartError, did_you_mean

FOLDERS = {
    "models/marts/metrics": "models/marts/metrics/_metrics.yml",
    "models/marts/custom": "models/marts/custom/_custom.yml",
}
"""Folders of families within the dbt project, each with the file that describes its models."""

LIST = "models/marts/metric_documents.sql"
"""The model that lists the families."""

LISTED = re.compile(r"(set metrics = \[\n)(.*?)(\n?\])", re.DOTALL)
"""The list in its text; the second group contains the names."""

_CHOICES: Mapping[str, tuple[object, ...]] = {
    "direction": ("higher", "lower"),
    "admissible": (True, False),
    "transform": (None, "exp"),
}


@dataclass(frozen=True)
class Family:
    """A metric family, as its YAML declares it.

    metric: name of the metric, of its model and of its files.
    family: its heading in the catalogue.
    direction: which values are better, `higher` or `lower`.
    admissible: whether an official submission may use it.
    needs: the kind of probe it is computed from (`full`, `window`, `retrieval`, …).
    transform: `exp` where the combined value is exponentiated last, else None.
    sql: the file of its model.
    caution: what to be careful about, if anything.
    description: formula, what it measures, source, unit and traps.
    """

    metric: str
    family: str
    direction: str
    admissible: bool
    needs: str
    transform: str | None
    sql: Path
    caution: str | None = None
    description: str = ""


def find_families(project: Path) -> list[Family]:
    """All families of a dbt project, by name.

    Raises:
        TokenmartError: a YAML can't be read, lacks a field or describes another model than the SQL
            files in its folder; or a family lacks variants or its place in the list, or one of
            these lacks the family. One line names the file, the field and what to do.
    """
    described: dict[str, tuple[Path, dict[str, Any]]] = {}
    models: dict[str, Path] = {}
    for folder, own in FOLDERS.items():
        here = {path.stem: path for path in sorted((project / folder).glob("**/*.sql"))}
        for path in sorted((project / folder).glob("**/*.y*ml")):
            for entry in models_of(path):
                described[str(entry.get("name"))] = (path, entry)
        for name, path in here.items():
            if name not in described:
                raise TokenmartError(
                    f"{path}: no YAML describes the model {name}; add it to {project / own}, as "
                    "`tokenmart metrics new` does"
                )
        models |= here
    for name in sorted(described.keys() - models.keys()):
        raise TokenmartError(
            f"{described[name][0]}: models: there is no {name}.sql for it; write that file, or "
            "remove what describes it"
        )
    families = []
    for name in sorted(models):
        path, entry = described[name]
        config = _mapping(path, name, "config", entry.get("config"))
        meta = {
            **_mapping(path, name, "meta", entry.get("meta")),
            **_mapping(path, name, "config.meta", config.get("meta")),
        }
        if "metric" in meta and config.get("enabled", True):
            description = str(entry.get("description") or "")
            families.append(_family(path, name, meta, models[name], description))
    _check_variants_files(project, [family.metric for family in families])
    _check_list(project, [family.metric for family in families])
    return families


def models_of(path: Path) -> Iterator[dict[str, Any]]:
    """Descriptions of dbt models in a YAML file: the entries under `models:`, each a mapping.

    Raises:
        TokenmartError: it can't be read, or isn't such a file.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # without libyaml: ten times slower
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
    except (OSError, UnicodeDecodeError) as error:
        raise TokenmartError(f"{path}: can't be read ({error}); write it as UTF-8") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise TokenmartError(f"{path}{line}: not YAML ({problem}); correct it") from error
    entries = content.get("models") if isinstance(content, dict) else None
    if entries is None:
        return
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise TokenmartError(f"{path}: models: must be a list of `- name: …`; correct it")
    yield from entries


def _check_variants_files(project: Path, metrics: list[str]) -> None:
    folder = project / "variants"
    written = {path.stem for path in folder.glob("*.csv")}
    for name in metrics:
        if name not in written:
            raise TokenmartError(
                f"{folder / f'{name}.csv'}: not there, and the metric {name} has no variants; "
                "write it, one row for each variant, as `tokenmart metrics new` does"
            )
    for name in sorted(written - set(metrics)):
        raise TokenmartError(
            f"{folder / f'{name}.csv'}: there is no metric {name}; {did_you_mean(name, metrics)}"
            "rename the file after its metric, or remove it"
        )


def _check_list(project: Path, metrics: list[str]) -> None:
    path = project / LIST
    found = LISTED.search(path.read_text(encoding="utf-8")) if path.is_file() else None
    listed = re.findall(r"'(\w+)'", found[2]) if found else []
    for name in metrics:
        if name not in listed:
            raise TokenmartError(
                f"{path}: the metric {name} is not in `set metrics = […]`; add '{name}' to it"
            )
    for name in listed:
        if name not in metrics:
            raise TokenmartError(
                f"{path}: `set metrics = […]` has {name}, which is no metric; "
                f"{did_you_mean(name, metrics)}remove '{name}' from it"
            )


def _mapping(path: Path, name: str, field: str, value: object) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise TokenmartError(
            f"{path}: {field} of {name} is {value!r}; write a mapping, one `key: value` per line"
        )
    return value or {}


def _family(path: Path, name: str, meta: dict[str, Any], sql: Path, description: str) -> Family:
    """Parse a family's `meta`; its first mistake is an error."""
    if meta["metric"] != name:
        raise TokenmartError(
            f"{path}: meta.metric of {name} is {meta['metric']!r}; write the name of the model, "
            f"{name}"
        )
    for field in ("family", "direction", "admissible", "needs", "transform"):
        value = meta.get(field)
        choices = _CHOICES.get(field)
        if choices is None and not (isinstance(value, str) and value.strip()):
            wanted = "write a word or two"
        elif choices is not None and value not in choices:
            named = [str(choice).lower() for choice in choices if choice is not None]
            wanted = f"write {' or '.join(named)}"
        else:
            continue
        found = "missing" if field not in meta else repr(value)
        raise TokenmartError(f"{path}: meta.{field} of {name} is {found}; {wanted}")
    return Family(
        name,
        meta["family"],
        meta["direction"],
        meta["admissible"],
        meta["needs"],
        meta.get("transform"),
        sql,
        str(meta["caution"]).strip() if meta.get("caution") else None,
        description,
    )
