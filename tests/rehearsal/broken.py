"""One model broken on purpose, in each way: the others are done, and it is named with a remedy."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.rehearsal.all_well import TOKEN, Stage, stored_units
from tests.rehearsal.hub import Hub, Repository
from tests.rehearsal.lookalikes import LOOK_ALIKES
from tests.rehearsal.made_up_text import fine_token_counter, made_up_text, text_of_tokens
from tests.rehearsal.scratch import (
    PROBLEM,
    TRUE_LENGTH,
    Done,
    Scratch,
    state_true_sizes,
    write_documents,
)
from tests.rehearsal.steps import require

FILM, LONGLORA = "In2Training/FILM-7B", "Leooyii/Longlora_32k_Slimpajama_1B"
NTK_32K, PI = "Leooyii/NTK_32k_Slimpajama_1B", "Leooyii/PI_32k_Slimpajama_1B"
YI, MISTRAL = "01-ai/Yi-6B-200K", "mistralai/Mistral-7B-Instruct-v0.2"


def _unchanged(folder: Path) -> None:
    """The repository is as it should be; something else is broken."""


@dataclass(frozen=True)
class Breakage:
    """A fault, and the message that the run must print.

    Attributes:
        name: for the table.
        models: those that must be named, and no others.
        words: each must be in the line that names a model.
        harm: changes the files of the first model's repository.
        repository: settings of its repository on the hub.
        token: what the client shows to the hub.
        without: a package that can't be imported.
        too_long: give the corpus a second document, beyond the margin of the named models.
        heals: run again with the hub well: then everything is done.
    """

    name: str
    models: tuple[str, ...]
    words: tuple[str, ...]
    harm: Callable[[Path], None] = _unchanged
    repository: dict[str, Any] = field(default_factory=dict)
    token: str | None = TOKEN
    without: str = ""
    too_long: bool = False
    heals: bool = False


def rehearse(breakage: Breakage, stage: Stage) -> str:
    """Run the extraction with one thing broken; see the module."""
    folder = stage.folder / "broken" / breakage.name.replace(" ", "-").replace("/", "-")
    repositories = dict(stage.repositories)
    victim = breakage.models[0]
    shutil.copytree(stage.repository_folder(victim), folder / "repository")
    breakage.harm(folder / "repository")
    gated = repositories[victim].token
    repositories[victim] = Repository(token=gated, **breakage.repository)
    repositories[victim].commit(folder / "repository")
    with Hub(repositories) as hub:
        extra = _without_package(folder, breakage.without) if breakage.without else {}
        root = folder.relative_to(stage.folder) / "checkout"
        scratch = stage.checkout(str(root), hub, token=breakage.token, extra=extra)
        # what is tried here is not whether a model of the published size fits this machine
        state_true_sizes(scratch.root)
        documents = 1 + breakage.too_long
        if breakage.too_long:
            write_documents(scratch.root, _texts_beyond_the_margin(stage, scratch))
        probe = ("--probe", "full") if breakage.too_long else ()
        command = ("extract", "--problem", PROBLEM, "--device", "cpu", *probe)
        done = scratch.run(*command, "--documents", str(documents))
        _only_the_broken_are_named(breakage, done)
        _everything_else_is_done(breakage, scratch)
        if breakage.harm is _malicious_pickle:
            require(not _marker(folder / "repository").exists(), "the pickle's code has run")
        if breakage.heals:
            repositories[victim].breaks_off = None
            again = scratch.run(*command, "--documents", str(documents))
            require(again.code == 0, f"with the hub well again: {again}")
    named = _errors(done)
    shutil.rmtree(folder)
    return named[0]


def _errors(done: Done) -> list[str]:
    return [line for line in done.output.splitlines() if line.startswith("error: ")]


def _only_the_broken_are_named(breakage: Breakage, done: Done) -> None:
    require(done.code not in (0, -9), str(done))
    require("Traceback" not in done.output, str(done))
    named = [line for line in _errors(done) if any(m.full_id in line for m in LOOK_ALIKES)]
    for full_id in breakage.models:
        lines = [line for line in named if full_id in line]
        require(lines, f"{full_id} is not named: {done}")
        for word in breakage.words:
            require(word in lines[0], f"{word!r} is not in: {lines[0]}")
    others = [line for line in named if not any(each in line for each in breakage.models)]
    require(not others, f"others are named: {others}")


def _everything_else_is_done(breakage: Breakage, scratch: Scratch) -> None:
    probes = [p for p in scratch.problem.probes if p.name == "full" or not breakage.too_long]
    conditions = [c.name for probe in probes for c in probe.conditions()]
    expected = {(name, doc) for name in conditions for doc in range(1 + breakage.too_long)}
    for model in LOOK_ALIKES:
        units = stored_units(scratch, model.full_id, conditions)
        done = {key for key, unit in units.items() if unit.status == "done"}
        if model.full_id not in breakage.models:
            require(done == expected, f"{model.full_id}: {sorted(done)} are done")
        elif breakage.too_long:
            alone = {(name, 0) for name in conditions}
            require(done == alone, f"{model.full_id}: {sorted(done)} are done")
            reasons = {unit.reason for key, unit in units.items() if key not in done}
            require(reasons and "" not in reasons, f"{model.full_id}: no reason in the ledger")
        else:
            require(not done, f"{model.full_id}: {sorted(done)} are done")


def _texts_beyond_the_margin(stage: Stage, scratch: Scratch) -> list[str]:
    margin = getattr(scratch.problem.documents, "margin", 0)
    count = fine_token_counter(stage.tokenizers)
    texts = [made_up_text(number, 400) for number in range(50)]
    texts[1] = text_of_tokens(1, TRUE_LENGTH + margin, count)
    return texts


def _without_package(folder: Path, package: str) -> dict[str, str]:
    """An environment in which importing a package fails, as where it isn't installed."""
    hook = folder / "hook"
    hook.mkdir(parents=True)
    (hook / "sitecustomize.py").write_text(f"import sys\nsys.modules[{package!r}] = None\n")
    return {"PYTHONPATH": str(hook)}


def _weights(folder: Path) -> Path:
    return next(folder.glob("*.safetensors"))


def _truncated(folder: Path) -> None:
    file = _weights(folder)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _nan_weights(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    weights = load_file(_weights(folder))
    weights["model.layers.1.self_attn.v_proj.weight"][3, 5] = torch.nan
    save_file(weights, _weights(folder), metadata={"format": "pt"})


def _configured(**changes: Any) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_bytes()), **changes}))

    return harm


def _marker(folder: Path) -> Path:
    return folder.parent / "the-code-has-run"


class _Payload:
    """What unpickles as a call of os.system."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def _malicious_pickle(folder: Path) -> None:
    import torch

    file = sorted(folder.glob("*.bin"))[0]
    content = torch.load(file, weights_only=True)
    torch.save({**content, "payload": _Payload(f"touch {_marker(folder)}")}, file)


def _pickles_instead(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(_weights(folder)), folder / "pytorch_model.bin")
    _weights(folder).unlink()


BREAKAGES = (
    Breakage("no sentencepiece", (FILM, LONGLORA), ("sentencepiece",), without="sentencepiece"),
    Breakage("gated, no token", (MISTRAL,), ("gated", "log in"), token=None),
    Breakage("malicious pickle", (LONGLORA,), ("weights",), _malicious_pickle),
    Breakage("pickles not allowed", (YI,), ("pickled",), _pickles_instead),
    Breakage("safetensors cut in half", (YI,), ("damaged",), _truncated),
    Breakage(
        "sizes differ from config.json",
        ("Qwen/Qwen2-1.5B-Instruct",),
        ("config.json",),
        _configured(intermediate_size=200),
    ),
    Breakage("NaN among the weights", (PI,), ("finite",), _nan_weights),
    Breakage("document beyond the margin", (NTK_32K, MISTRAL), ("document 1",), too_long=True),
    Breakage(
        "download breaks off",
        ("Qwen/Qwen2.5-7B-Instruct",),
        ("network",),
        repository={"breaks_off": 1000},
        heals=True,
    ),
    Breakage(
        "more memory than there is",
        ("Qwen/Qwen2.5-Coder-7B-Instruct",),
        ("needs about", "GiB"),
        _configured(hidden_size=131_072, intermediate_size=524_288, num_hidden_layers=200),
    ),
)
