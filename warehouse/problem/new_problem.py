"""A problem file for the user's own texts and models, checked before it is written."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from warehouse.errors import TokenmartError
from warehouse.files import write_whole
from warehouse.paths import Workspace, list_problems
from warehouse.probes.lookup import RetrievalProbe, excerpt_starts
from warehouse.probes.planned import too_short
from warehouse.problem.problem_files import Dumper, parse_text, parse_yaml
from warehouse.problem.spec import Problem, checked_problem
from warehouse.sources.configurations import text_config
from warehouse.sources.documents import BYTES_PER_TOKEN, text_size
from warehouse.store.schema import table_path
from warehouse.table_file import SUFFIXES

RETRIEVAL = RetrievalProbe(
    kind="retrieval",
    excerpts=8,
    excerpt_characters=192,
    answer_characters=128,
    min_gap_characters=2048,
)
"""In characters, so that models are asked about the same passages whatever their tokenizers."""
RETRIEVAL_HEADROOM = (RETRIEVAL.excerpt + RETRIEVAL.answer) // 2
"""Tokens of a model's context for an excerpt and its answer, at 2 characters a token or more."""
SHORTEST_WINDOW, LONGEST_WINDOW = 32, 3072
"""The window is half of a short document's tokens, as a power of two. With a stride of the same
length, the longest has the mean context of LongPPL's published windows (4,096 tokens and strides of
1,024) at 40% of their price."""
SHORT_SHARE = 10
"""One in so many documents may be too short for the window."""
_OF_A_CHECKPOINT = ("full_id", "family", "parameters", "shape", "licence", "source")
_HEADER = "# Written by `tokenmart data new`. Paths start at the folder of this file.\n"
_FOOTER = "# target: {kind: imported}  # scores to rank metrics by, from `tokenmart data import`\n"


def write_problem(
    workspace: Workspace, name: str, texts: Path, models: Sequence[str], out: Path
) -> tuple[Problem, list[str]]:
    """Write a problem file that runs as it is.

    Args:
        name: of the problem; lower-case letters, digits, `-` and `_`.
        texts: a folder of text files, one such file, or a table of texts.
        models: for each model its id on the hub, or the path of its folder or GGUF file.
        out: the new file; relative paths in it start at its folder.

    Returns:
        The problem, and a line for each document that is too short for a condition.

    Raises:
        ProblemFileError: the name or an id can't be one, or a model is given twice.
        TokenmartError: the name or the file is taken, there are no texts, or no such model.
    """
    if name in list_problems(workspace) or table_path(workspace, "documents", name).exists():
        raise TokenmartError(f"data new {name}: the name is taken", code="name-taken", where=name)
    if os.path.lexists(out):
        raise TokenmartError(f"{out}: there already", code="file-exists", where=out)
    kind = "table" if texts.name.lower().endswith(SUFFIXES) else "folder"
    kind = "json" if texts.suffix.lower() == ".json" else kind
    content: dict[str, Any] = {
        "name": name,
        "title": f"Texts of {name}",
        # a document that is longer than a model's context would fail for that model
        "documents": {"kind": kind, "path": _path(texts, out), "too_long": "truncate"},
        "models": [_model(model, out, workspace) for model in models],
        "probes": [{"kind": "full"}],
    }
    draft = checked_problem(parse_text(_yaml(content).encode(), out), workspace)
    folders = draft.folders(workspace)
    documents = draft.documents.read(folders)
    sizes = [text_size(document.text) for document in documents]
    contexts = [limit for model in draft.models if (limit := model.context_limit(folders))]
    most = max(2, min(contexts) - 1 - RETRIEVAL_HEADROOM) if contexts else math.inf
    read = [int(min(most, size.tokens)) for size in sizes]
    half = sorted(read)[len(read) // SHORT_SHARE] // 2
    window = min(LONGEST_WINDOW, 1 << max(SHORTEST_WINDOW.bit_length(), half.bit_length()) - 1)
    content["probes"] += [
        {"kind": "window", "name": f"window_{window}", "context": window, "stride": window}
    ]
    per_token = BYTES_PER_TOKEN * sum(s.characters for s in sizes) / sum(s.bytes for s in sizes)
    # more than one: an excerpt is left where one is lost near a cut
    if len(excerpt_starts(int(median(read) * per_token), RETRIEVAL)) > 1:
        content["documents"]["headroom"] = RETRIEVAL_HEADROOM
        content["probes"] += [RETRIEVAL.model_dump(include=RETRIEVAL.model_fields_set)]
    problem = checked_problem(parse_text(_yaml(content).encode(), out), workspace)
    write_whole(out, _yaml(content))
    problem._argument = str(out)
    conditions = [each for probe in problem.probes for each in probe.conditions()]
    named = zip((document.name for document in documents), read, strict=True)
    return problem, too_short(named, conditions)


def _yaml(content: dict[str, Any]) -> str:
    dumped = yaml.dump(
        content, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None,
        width=100,
    )  # fmt: skip
    return _HEADER + str(dumped) + _FOOTER


def _model(model: str, out: Path, workspace: Workspace) -> dict[str, Any]:
    """An entry of `models`, from the id or path that the user gave."""
    path = Path(model).expanduser()
    named = path.name
    if (path / "config.json").is_file():
        kind, named = "local", str(text_config(path).get("model_type") or named)
    elif path.suffix.lower() == ".gguf" and path.is_file():
        kind = "gguf"
    elif path.exists() or model.startswith((".", "/", "~")):
        what = f"--model {model}: no folder with config.json, GGUF file or id of the hub (org/name)"
        raise TokenmartError(what, code="no-model", where=model)
    else:
        kind = "hub"
    # the letters that a name begins with, as in Qwen/Qwen2.5-0.5B
    family = (re.match(r"[A-Za-z]+", named) or ["own"])[0].lower()
    if kind == "hub":
        entry = {"full_id": model, "family": family, "source": {"kind": kind}}
        return _of_a_package(model, workspace) or entry
    name = path.absolute().name.removesuffix(path.suffix if kind == "gguf" else "")
    full_id = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).lstrip("-._+") or "model"
    source = {"kind": kind, "path": _path(path, out)}
    return {"full_id": full_id, "family": family, "source": source}


def _of_a_package(model: str, workspace: Workspace) -> dict[str, Any] | None:
    """The entry of one of the two models of the demo, for which no hub is needed."""
    for file in workspace.problems.glob("minilong.yml"):
        for row in parse_yaml(file).value["models"]:
            if row["full_id"] == model and "base" not in row:
                return {key: row[key] for key in _OF_A_CHECKPOINT if key in row}
    return None


def _path(path: Path, out: Path) -> str:
    """A path as written in a problem file."""
    if not path.expanduser().exists():
        raise TokenmartError(f"{path}: no such file or folder", code="no-file", where=path)
    # where `paths_start` begins: `..` of a link to a folder is another place than of the folder
    return os.path.relpath(path.expanduser(), out.parent.resolve())
