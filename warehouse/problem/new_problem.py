"""A problem file for the user's own texts and models, checked before it is written."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from warehouse.errors import ProblemFileError, TokenmartError, did_you_mean
from warehouse.files import appearing
from warehouse.paths import Workspace, list_problems
from warehouse.probes.lookup import RetrievalProbe, excerpt_starts
from warehouse.problem.spec import Problem, checked_problem
from warehouse.problem.yaml_file import parse_text, parse_yaml
from warehouse.sources.checkpoint_files import (
    PICKLED,
    SAFETENSORS,
    gguf_header,
    has_weights,
    refuse_missing_shards,
)
from warehouse.sources.document_files import (
    BYTES_PER_TOKEN,
    JSON_ENDINGS,
    TEXT_ENDINGS,
    TextSize,
)
from warehouse.strict_json import StrictJsonError, read_json

RETRIEVAL = RetrievalProbe(
    kind="retrieval",
    excerpts=8,
    excerpt_characters=192,
    answer_characters=128,
    min_gap_characters=2048,
)
"""In characters, so that models are asked about the same passages whatever their tokenizers."""
CHARACTERS_PER_TOKEN_AT_LEAST = 2
"""Of ordinary text."""
BYTES_PER_TOKEN_OF_A_CUT = 3
"""A cut in characters must leave less than a context of every tokenizer, and not much less."""
RETRIEVAL_HEADROOM = (RETRIEVAL.excerpt + RETRIEVAL.answer) // CHARACTERS_PER_TOKEN_AT_LEAST
"""Tokens of a model's context that an excerpt and its answer take."""
_SHORTEST_WINDOW, _LONGEST_WINDOW = 32, 3072
"""With a stride of the same length, the longest has the mean context of LongPPL's published windows
(4,096 tokens and strides of 1,024) at 40% of their price."""
SHARE_WITH_A_WINDOW = 0.9
"""Share of all text in documents of two windows or more, so that a few short ones don't set the
window for all.
"""
_LARGEST_CONFIG = 16 << 20
_NAME = r"[a-z0-9][a-z0-9_-]{0,99}"
_HUB_ID = r"[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9._+-]+)?"
_FOLDERS = {"checkpoint", "checkpoints", "experts", "models", "outputs"}
_CONTENT_HASH = r"[0-9a-f]{32,}"


@dataclass(frozen=True)
class NewProblem:
    """A problem file that was written.

    Attributes:
        path: the file.
        problem: its content.
        lengths: tokens of each document, estimated, uncut.
        read: tokens of each document that the model with the shortest context reads.
        context: the shortest of the models' contexts in tokens, as far as they are known.
        context_of: the model that has it.
        window: tokens of the short context.
    """

    path: Path
    problem: Problem
    lengths: tuple[int, ...]
    read: tuple[int, ...]
    context: int | None
    context_of: str
    window: int

    @property
    def without_window(self) -> int:
        """Documents shorter than two windows: none of their tokens has a shorter context."""
        return sum(length < 2 * self.window for length in self.lengths)


@dataclass(frozen=True)
class _Model:
    full_id: str
    family: str
    source: str


def write_problem(
    workspace: Workspace, name: str, texts: Path, models: Sequence[str], out: Path
) -> NewProblem:
    """Write a commented problem file that runs as it is.

    Args:
        name: of the problem; lower-case letters, digits, `-` and `_`.
        texts: a folder of text files, one such file, or a file of JSON or JSON lines.
        models: for each model its id on the hub, or the path of its folder or GGUF file.
        out: the new file; relative paths in it start at its folder.

    Raises:
        ProblemFileError: the name can't be one.
        TokenmartError: the name or the file is taken, there are no texts, or no such model.
    """
    if not re.fullmatch(_NAME, name):
        raise ProblemFileError(
            f"data new {name}: use lower-case letters, digits, - and _ for a name, at most 100"
        )
    if name in list_problems(workspace) or _has_data(workspace, name):
        raise TokenmartError(
            f"data new {name}: there is a problem {name} already, whose files this one would "
            "share; choose another name"
        )
    if os.path.lexists(out):
        raise TokenmartError(f"{out}: there already; edit it, or give another name with --out")
    folder = out.absolute().parent
    _refuse_twice(models)
    described = _with_own_ids(
        [_packaged(model, workspace) or _described(model, folder) for model in models]
    )
    # read with a window that fits anything: its length follows from the texts
    documents = _documents(texts, folder)
    draft = _parsed(_content(name, documents, described, _SHORTEST_WINDOW), out, workspace)
    place = draft.place(workspace)
    sizes = draft.documents.sizes(place) or []
    lengths = [size.tokens for size in sizes]
    known = [(limit, m.full_id) for m in draft.models if (limit := m.context_limit(place))]
    context, context_of = min(known, default=(None, ""))

    def cut(headroom: int) -> tuple[int | None, list[int]]:
        """Characters of a document that every model reads, and tokens of each document."""
        at = _common_cut(context, sizes, headroom) if len(described) > 1 else None
        read = [size.cut(at).tokens for size in sizes]
        if context is not None:
            most = max(2, context - 1 - headroom)  # one token of it may be BOS
            read = [min(length, most) for length in read]
        return at, read

    excerpts = _has_excerpts(sizes, cut(RETRIEVAL_HEADROOM)[1])
    at, read = cut(RETRIEVAL_HEADROOM if excerpts else 0)
    window = _window(read)
    content = _content(name, documents, described, window, excerpts, at)
    problem = _parsed(content, out, workspace)
    with appearing(out) as new:
        new.write_text(content, encoding="utf-8")
    problem._asked = str(out)
    return NewProblem(out, problem, tuple(lengths), tuple(read), context, context_of, window)


def _common_cut(context: int | None, sizes: Sequence[TextSize], headroom: int) -> int | None:
    """Where to cut documents in characters, so that models with other tokenizers read one text.

    None where nothing is known to be longer than the shortest context.
    """
    if context is None:
        return None
    most = max(2, context - 1 - headroom) * BYTES_PER_TOKEN_OF_A_CUT
    longer = [size for size in sizes if size.bytes > most]
    return min((most * size.characters // size.bytes for size in longer), default=None)


def _refuse_twice(models: Sequence[str]) -> None:
    """Stop at a model that is named twice, by one path or two: it would count as two models."""
    seen: set[str] = set()
    for model in models:
        place = str(Path(model).resolve()) if Path(model).exists() else model
        if place in seen:
            raise TokenmartError(f"--model {model}: is given twice; remove one")
        seen.add(place)


def _with_own_ids(models: list[_Model]) -> list[_Model]:
    """The models, numbered where folders have one name."""
    ids = [model.full_id for model in models]
    return [
        replace(model, full_id=f"{model.full_id}-{before + 1}") if before else model
        for index, model in enumerate(models)
        if (before := ids[:index].count(model.full_id)) >= 0
    ]


def _parsed(content: str, out: Path, workspace: Workspace) -> Problem:
    return checked_problem(parse_text(content.encode(), out), workspace)


def _has_data(workspace: Workspace, name: str) -> bool:
    return any(
        (table / f"problem={name}").exists() for table in (workspace.documents, workspace.tokens)
    )


def _content(
    name: str,
    documents: str,
    models: Sequence[_Model],
    window: int,
    excerpts: bool = False,
    cut: int | None = None,
) -> str:
    retrieval = ""
    if cut is not None:
        documents = f"{documents[:-1]}, max_characters: {cut}}}"
    if excerpts:
        # excerpts follow the whole document: headroom in the model's context
        documents = f"{documents[:-1]}, room: {RETRIEVAL_HEADROOM}}}"
        sizes = RETRIEVAL.model_dump(include=RETRIEVAL.model_fields_set).items()
        settings = ", ".join(f"{field}: {size}" for field, size in sizes)
        retrieval = f"""
  # excerpts repeated after the document (`room` reserves tokens for them), and alone
  - {{{settings}}}"""
    entries = "".join(
        f"""  - full_id: {_scalar(model.full_id)}
    family: {_scalar(model.family)}  # models of one family are not independent
    source: {model.source}
"""
        for model in models
    )
    return f"""# Written by `tokenmart data new`. Paths start at the folder of this file.
name: {_scalar(name)}
title: {_scalar(f"Texts of {name}")}
documents: {documents}
models:
{entries}probes:  # contexts: the whole document, and windows of it
  - {{kind: full}}
  - {{kind: window, name: window_{window}, context: {window}, stride: {window}}}{retrieval}
# target: {{kind: imported}}  # scores to rank metrics by, from `tokenmart data import`
"""


def _documents(texts: Path, folder: Path) -> str:
    kind = "json" if texts.name.lower().endswith(JSON_ENDINGS) else "folder"
    if not texts.exists():
        raise TokenmartError(f"--texts {texts}: no such folder or file; give one with texts in it")
    if kind == "folder" and texts.is_file() and not texts.name.lower().endswith(TEXT_ENDINGS):
        known = ", ".join((*TEXT_ENDINGS, *JSON_ENDINGS))
        raise TokenmartError(f"--texts {texts}: not a text file; its name must end in {known}")
    # a document that is longer than a model's context would fail for that model
    return f"{{kind: {kind}, path: {_path(texts, folder)}, too_long: truncate}}"


def _packaged(model: str, workspace: Workspace) -> _Model | None:
    """The model of a problem here that comes in a Python package and has this name.

    Two of them come with Tokenmart: its tutorials need no model of one's own and no hub.
    """
    if Path(model).expanduser().exists():
        return None
    names = []
    for path in sorted(workspace.problems.glob("*.yml")):
        tree = parse_yaml(path).value
        rows = tree.get("models") if isinstance(tree, dict) else None
        for row in rows if isinstance(rows, list) else ():
            source = row.get("source") if isinstance(row, dict) else None
            packaged = isinstance(source, dict) and source.get("kind") == "package"
            if packaged and row.get("full_id") == model:
                return _Model(model, str(row.get("family")), json.dumps(source))
            names += [str(row.get("full_id"))] if packaged else []
    if "/" not in model and (hint := did_you_mean(model, names)):
        raise TokenmartError(f"--model {model}: no such folder or GGUF file; {hint}".rstrip())
    return None


def _described(model: str, folder: Path) -> _Model:
    path = Path(model).expanduser()
    if path.is_dir():
        return _local(path, folder)
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise TokenmartError(
                f"--model {model}: not a GGUF file; give the folder that contains config.json "
                "and the weights"
            )
        fields = getattr(gguf_header(path), "fields", {})
        architecture, name = (
            str(fields[key].contents()) if key in fields else ""
            for key in ("general.architecture", "general.name")
        )
        full_id = _full_id(name if name and path.stem == "model" else path.stem)
        family = _family(architecture or full_id)
        return _Model(full_id, family, f"{{kind: gguf, path: {_path(path, folder)}}}")
    beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    hint = did_you_mean(path.name, beside)
    # as in `checkpoints/my-model`: on the hub, no organisation is called so
    looks_like_a_path = (
        model.startswith((".", "~", os.sep))
        or model.count("/") > 1
        or model.partition("/")[0].lower() in _FOLDERS
    )
    if looks_like_a_path or hint or not re.fullmatch(_HUB_ID, model):
        raise TokenmartError(
            f"--model {model}: no such folder or GGUF file, and no id of the hub (org/name); "
            f"{hint or 'correct it'}".rstrip()
        )
    return _Model(model, _family(model), "{kind: hub}")


def _local(path: Path, folder: Path) -> _Model:
    try:
        config = read_json(path / "config.json", _LARGEST_CONFIG).content
    except StrictJsonError as error:
        raise TokenmartError(
            f"--model {path}: its config.json {error}; give a folder written by save_pretrained"
        ) from error
    refuse_missing_shards(f"--model {path}", path, SAFETENSORS)
    if not has_weights(path, SAFETENSORS):
        pickled = " (pickled ones may contain code)" if has_weights(path, PICKLED) else ""
        raise TokenmartError(
            f"--model {path}: no .safetensors weights{pickled}; convert them with save_pretrained"
        )
    kind = config.get("model_type") if isinstance(config, dict) else None
    kind = kind if isinstance(kind, str) and kind else "model"
    # a snapshot in the hub's cache: models--org--name/snapshots/<commit>
    hub = next((part for part in path.resolve().parts if part.startswith("models--")), "")
    name = path.absolute().name
    if hub:
        name = hub.removeprefix("models--").replace("--", "/", 1)
    elif re.fullmatch(_CONTENT_HASH, name):
        name = kind
    full_id = _full_id(name)
    return _Model(full_id, _family(kind), f"{{kind: local, path: {_path(path, folder)}}}")


def _full_id(name: str) -> str:
    """The nearest text that is a model's id."""
    return re.sub(r"^[^A-Za-z0-9]+", "", re.sub(r"[^A-Za-z0-9._+/-]+", "-", name))[:200] or "model"


def _family(name: str) -> str:
    """The letters that a model's name begins with, as in `Qwen/Qwen2.5-0.5B`: qwen."""
    letters = re.match(r"[A-Za-z]+", name.rpartition("/")[2])
    return letters[0].lower() if letters else "own"


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


def _has_excerpts(sizes: Sequence[TextSize], read: Sequence[int]) -> bool:
    """Whether most documents are long enough for excerpts; one that isn't is left out of the
    value.
    """
    if not sizes:
        return False
    per_byte = sum(size.characters for size in sizes) / sum(size.bytes for size in sizes)
    characters = int(median(read) * BYTES_PER_TOKEN * per_byte)
    # two of them: an excerpt is left where one is lost near a cut
    return len(excerpt_starts(characters, RETRIEVAL)) > 1


def _path(path: Path, folder: Path) -> str:
    """A path as written in a file of this folder."""
    absolute = Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - links stay as given
    try:
        relative = os.path.relpath(absolute, folder)
    except ValueError:  # another drive
        return _scalar(str(absolute))
    far = Path(relative).parts[:3] == (os.pardir,) * 3
    return _scalar(str(absolute) if far else relative)


def _scalar(text: str) -> str:
    """A text as a YAML value, quoted where that is needed."""
    plain = re.fullmatch(r"[A-Za-z_./][A-Za-z0-9_./+-]*( [A-Za-z0-9_./+-]+)*", text)
    if plain and text.lower() not in ("true", "false", "yes", "no", "on", "off", "null", "y", "n"):
        return text
    return json.dumps(text, ensure_ascii=False)
