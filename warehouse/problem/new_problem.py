"""A problem file for the user's own texts and models, checked before it is written."""

from __future__ import annotations

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
from warehouse.problem.spec import Problem, checked_problem
from warehouse.problem.yaml_file import Dumper, parse_text, parse_yaml
from warehouse.sources.checkpoint_files import gguf_header, text_config
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
_SHORTEST_WINDOW, _LONGEST_WINDOW = 32, 3072
"""With a stride of the same length, the longest has the mean context of LongPPL's published windows
(4,096 tokens and strides of 1,024) at 40% of their price."""
SHARE_WITH_A_WINDOW = 0.9
"""Share of all text in documents of two windows or more, so that a few short ones don't set the
window for all.
"""
_OF_A_CHECKPOINT = ("full_id", "family", "parameters", "shape", "licence", "source")
_HEADER = "# Written by `tokenmart data new`. Paths start at the folder of this file.\n"
_FOOTER = "# target: {kind: imported}  # scores to rank metrics by, from `tokenmart data import`\n"


def write_problem(
    workspace: Workspace, name: str, texts: Path, models: Sequence[str], out: Path
) -> tuple[Problem, list[tuple[str, int]]]:
    """Write a problem file that runs as it is.

    Args:
        name: of the problem; lower-case letters, digits, `-` and `_`.
        texts: a folder of text files, one such file, or a table of texts.
        models: for each model its id on the hub, or the path of its folder or GGUF file.
        out: the new file; relative paths in it start at its folder.

    Returns:
        The problem, and the name and estimated tokens read of each document.

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
    draft = _parsed(content, out, workspace)
    folders = draft.folders(workspace)
    documents = draft.documents.read(folders)
    sizes = [text_size(document.text) for document in documents]
    contexts = [limit for model in draft.models if (limit := model.context_limit(folders))]
    most = max(2, min(contexts) - 1 - RETRIEVAL_HEADROOM) if contexts else None
    read = [size.tokens if most is None else min(most, size.tokens) for size in sizes]
    per_token = BYTES_PER_TOKEN * sum(s.characters for s in sizes) / sum(s.bytes for s in sizes)
    window = _window(read)
    content["probes"] += [
        {"kind": "window", "name": f"window_{window}", "context": window, "stride": window}
    ]
    # more than one: an excerpt is left where one is lost near a cut
    if len(excerpt_starts(int(median(read) * per_token), RETRIEVAL)) > 1:
        content["documents"]["room"] = RETRIEVAL_HEADROOM
        content["probes"] += [RETRIEVAL.model_dump(include=RETRIEVAL.model_fields_set)]
    problem = _parsed(content, out, workspace)
    write_whole(out, _yaml(content))
    problem._argument = str(out)
    names = [document.name for document in documents]
    return problem, list(zip(names, read, strict=True))


def short_documents(problem: Problem, documents: Sequence[tuple[str, int]]) -> list[str]:
    """A line for each document, of name and estimated tokens, that is too short for some probes."""
    conditions = [each for probe in problem.probes for each in probe.conditions()]
    return too_short(documents, conditions)


def _yaml(content: dict[str, Any]) -> str:
    dumped = yaml.dump(
        content,
        Dumper=Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=100,
    )
    return _HEADER + dumped + _FOOTER


def _parsed(content: dict[str, Any], out: Path, workspace: Workspace) -> Problem:
    return checked_problem(parse_text(_yaml(content).encode(), out), workspace)


def _window(lengths: Sequence[int]) -> int:
    """Half of a short document's tokens, as a power of two.

    The document is the longest than which others hold at least `SHARE_WITH_A_WINDOW` of all text.
    """
    short, held = 0, 0
    for short in sorted(lengths, reverse=True):
        held += short
        if held >= SHARE_WITH_A_WINDOW * sum(lengths):
            break
    half = max(1, short // 2)
    return min(_LONGEST_WINDOW, max(_SHORTEST_WINDOW, 1 << (half.bit_length() - 1)))


def _model(model: str, out: Path, workspace: Workspace) -> dict[str, Any]:
    """An entry of `models`, from the id or path that the user gave."""
    path = Path(model).expanduser()
    if (path / "config.json").is_file():
        name, kind = path.absolute().name, text_config(path).get("model_type")
        return _placed("local", path, name, str(kind or name), out)
    if path.suffix.lower() == ".gguf" and path.is_file():
        architecture = getattr(gguf_header(path), "fields", {}).get("general.architecture")
        family = architecture.contents() if architecture else path.stem
        return _placed("gguf", path, path.stem, family, out)
    # two models come with Tokenmart, in Python packages: a tutorial needs no model hub
    for file in sorted(workspace.problems.glob("*.yml")):
        tree = parse_yaml(file).value
        for row in (tree.get("models") or ()) if isinstance(tree, dict) else ():
            if row.get("full_id") == model and row.get("source", {}).get("kind") == "package":
                return {key: row[key] for key in _OF_A_CHECKPOINT if key in row}
    if path.exists() or model.startswith((".", "/", "~")):
        what = f"--model {model}: no folder with config.json, GGUF file or id of the hub (org/name)"
        raise TokenmartError(what, code="no-model", where=model)
    return {"full_id": model, "family": _family(model), "source": {"kind": "hub"}}


def _placed(kind: str, path: Path, name: str, family: str, out: Path) -> dict[str, Any]:
    """The entry of a folder or file; its id is the nearest text that can be one."""
    full_id = re.sub(r"^[^A-Za-z0-9]+", "", re.sub(r"[^A-Za-z0-9._+-]+", "-", name)) or "model"
    source = {"kind": kind, "path": _path(path, out)}
    return {"full_id": full_id[:200], "family": _family(family), "source": source}


def _family(name: str) -> str:
    """The letters that a model's name begins with, as in `Qwen/Qwen2.5-0.5B`: qwen."""
    letters = re.match(r"[A-Za-z]+", name.rpartition("/")[2])
    return letters[0].lower() if letters else "own"


def _path(path: Path, out: Path) -> str:
    """A path as written in a problem file."""
    if not path.expanduser().exists():
        raise TokenmartError(f"{path}: no such file or folder", code="no-file", where=path)
    return os.path.relpath(path.expanduser(), out.absolute().parent)
