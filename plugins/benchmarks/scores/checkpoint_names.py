"""Identify the checkpoint of a result, and its step and tokens from its name.

Two results are of one checkpoint only if all model arguments of the harness, its backend, its
settings of generation and its seeds are equal. Steps and tokens are read from the forms in use:
`step5000`, `stage1-step5000-tokens21B`, `ckpt_005`, `iter_0002000`, `checkpoint-500`,
`global_step1000`, `x_step60900-hf`, `intermediate-step-480k-1T`, `240b_tokens`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_STEP = re.compile(
    r"(?<![A-Za-z0-9])(?:global[-_]?step|training[-_]?step|step|iteration|iter|checkpoint|ckpt)s?"
    r"[-_=]?(?P<number>\d+)(?P<unit>[km])?(?![A-Za-z0-9.])",
    re.IGNORECASE,
)
_TOKENS = re.compile(
    r"(?<![A-Za-z0-9.])(?:tokens?[-_=]?(?P<number>\d+(?:\.\d+)?)(?P<unit>[kmbt])"
    r"|(?P<number2>\d+(?:\.\d+)?)(?P<unit2>[kmbt])[-_]?(?:tokens?|t))(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_TOKENS_BEHIND_STEP = re.compile(
    r"^[-_](?P<number>\d+(?:\.\d+)?)(?P<unit>[bt])(?![A-Za-z0-9])", re.IGNORECASE
)
_SIZES = {"k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}
_PLACES = ("subfolder", "revision", "peft")
NAMES = ("peft", "delta", "pretrained", "model", "path", "engine")
"""Arguments that name a model, in the order in which the harness takes one for its name."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint, as given in the arguments of the harness.

    Attributes:
        model: name of the run, without step and tokens.
        rest: further parts of the name without step and tokens, such as the stage of a revision.
        step: training step; None if the name has no known form.
        tokens: number of training tokens; None if the name has no known form.
        identity: all arguments that distinguish it.
    """

    model: str
    rest: str
    step: int | None
    tokens: float | None
    identity: tuple[tuple[str, str], ...]

    @property
    def place(self) -> str:
        """Where its weights are, as named: `org/model, revision=step5`."""
        named = dict(self.identity)
        places = [f"{key}={named[key]}" for key in _PLACES if named.get(key)]
        return ", ".join([named["name"], *places])

    @property
    def other_arguments(self) -> tuple[tuple[str, str], ...]:
        """Model arguments and settings of the harness other than names."""
        return tuple(pair for pair in self.identity if pair[0] not in ("name", *_PLACES))


def checkpoint_of(
    name: str | None, arguments: object, settings: Mapping[str, object] | None = None
) -> Checkpoint | None:
    """The checkpoint that a file of results is of; None where nothing names a model.

    Args:
        name: `model_name`, which files since 0.4.3 have.
        arguments: `model_args`: text with `key=value` and commas between, or an object.
        settings: what else two results of a model may differ in, by name; None for a default.
    """
    given = _arguments(arguments)
    name = name or next((given[key] for key in NAMES if given.get(key)), None)
    if not name:
        return None
    others = _arguments(settings or {})
    identity = tuple(sorted({"name": name, **others, **given}.items()))
    name = name.rstrip("/")
    step: int | None = None
    tokens: float | None = None
    rests = []
    for key in _PLACES:
        rest, found, read = parted(given.get(key, ""))
        step, tokens = (found if step is None else step), (read if tokens is None else tokens)
        rests += [rest] if rest and not (key == "revision" and rest == "main") else []
    model = name
    if step is None and tokens is None:
        rest, step, tokens = parted(name)
        model = rest or name
    return Checkpoint(model, "-".join(rests), step, tokens, identity)


def _arguments(given: object) -> dict[str, str]:
    if isinstance(given, str):
        pairs = [part.split("=", 1) for part in given.split(",") if "=" in part]
        return {key.strip(): value.strip() for key, value in pairs}
    if isinstance(given, Mapping):
        return {str(key): str(value) for key, value in given.items() if value is not None}
    return {}


def parted(text: str) -> tuple[str, int | None, float | None]:
    """A name without its step and tokens, the step, and the tokens."""
    step, tokens = None, None
    if steps := [each for each in _STEP.finditer(text) if not _is_name(text, each)]:
        found = steps[-1]
        step = _counted(found["number"], found["unit"])
        behind = _TOKENS_BEHIND_STEP.match(text[found.end() :])
        end = found.end()
        if behind:
            tokens, end = float(_counted(behind["number"], behind["unit"])), end + behind.end()
        text = _joined(text[: found.start()], text[end:])
    if tokens is None and (read := _TOKENS.search(text)):
        number, unit = (read["number"], read["unit"]) if read["number"] else read.group(3, 4)
        tokens = float(_counted(number, unit))
        text = _joined(text[: read.start()], text[read.end() :])
    return text, step, tokens


def _is_name(text: str, found: re.Match[str]) -> bool:
    """Whether a step begins the last part of a path that goes on: `org/Step-2-mini`."""
    after = _TOKENS_BEHIND_STEP.sub("", text[found.end() :])
    after = _TOKENS.sub("", after).strip("-_/=.")
    return text[: found.start()].endswith("/") and after.lower() not in ("", "hf")


def _joined(before: str, after: str) -> str:
    before, after = before.rstrip("-_/=.@"), after.strip("-_/=.")
    return f"{before}-{after}" if before and after else before or after


def _counted(number: str, unit: str | None) -> int:
    return round(float(number) * _SIZES[unit.lower()]) if unit else int(number)
