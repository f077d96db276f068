"""Check recipes before weights are read: method, inputs, bases, shapes, tokenizers, layers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from plugins.merging.eligibility import ExpertFiles, shape_difference
from plugins.merging.problem import Merge
from warehouse.errors import TokenmartError, did_you_mean

_LAYER = re.compile(r"\.layers\.(\d+)\.")


def refuse_recipe(merge: Merge, files: Mapping[str, ExpertFiles]) -> None:
    """Refuse an invalid recipe.

    Args:
        merge: the merge with its recipe.
        files: headers by expert; for an adapter, those of its base, which it is merged into.

    Raises:
        TokenmartError: mergekit is not installed, or the recipe is invalid (the first error).
    """
    wrong = next(_mistakes(merge, files), None)
    if wrong is not None:
        raise TokenmartError(f"merge {merge.name}: {wrong}; correct its recipe")


def _mistakes(merge: Merge, files: Mapping[str, ExpertFiles]) -> Iterator[str]:
    specs = _methods()
    method = merge.method
    if method not in specs:
        hint = did_you_mean(method, specs)
        yield f"unknown merge_method {method!r}; {hint}mergekit has: {', '.join(sorted(specs))}"
    yield from _not_a_configuration(merge)
    spec = specs[method]
    policy = spec.contract.base.value
    names = merge.models()
    if policy == "forbidden" and merge.base is not None:
        yield f"{method} takes no base_model"
    if policy == "required" and merge.base is None:
        yield f"{method} needs base_model, the expert that differences are taken from"
    if merge.base is not None and merge.base not in files:
        yield f"base_model {merge.base!r} is no expert"
    least = spec.contract.min_inputs
    if "slices" not in merge.recipe and len(names) < max(least, 1):
        yield f"{method} merges at least {least} experts, given: {', '.join(names) or 'none'}"
    most = spec.contract.max_inputs
    if "slices" not in merge.recipe and most is not None and len(names) > most:
        yield f"{method} merges at most {most} experts, given: {', '.join(names)}"
    known = {parameter.name for parameter in spec.parameters}
    for name in _parameter_names(merge.recipe):
        if name not in known:
            hint = did_you_mean(name, known)
            yield f"{method} has no parameter {name!r}; {hint}it has: {', '.join(sorted(known))}"
    first = files[merge.base or names[0]]
    for name in names:
        each = files[name]
        if each.architecture != first.architecture:
            yield f"{name} is a {each.architecture}, {names[0]} a {first.architecture}"
        if "slices" not in merge.recipe and (gap := shape_difference(each.tensors, first.tensors)):
            yield f"{name} can't be merged with {merge.base or names[0]}: {gap}"
        if each.tokenizer != first.tokenizer:
            yield f"{name} and {merge.base or names[0]} have unequal tokenizers (vocabularies)"
    yield from _layers(merge, files)


def _methods() -> dict[str, Any]:
    try:
        from mergekit.merge_methods.registry import registered_methods
    except ImportError as error:
        raise TokenmartError(
            f"mergekit is not installed (no module {error.name}); `pip install -c "
            "requirements.lock -e '.[merge]'`"
        ) from error
    return {method.spec.name: method.spec for method in registered_methods()}


def _not_a_configuration(merge: Merge) -> Iterator[str]:
    from mergekit.config import MergeConfiguration

    unknown = set(merge.recipe) - set(MergeConfiguration.model_fields)
    if unknown:
        hint = did_you_mean(min(unknown), MergeConfiguration.model_fields)
        yield f"unknown key {min(unknown)!r} of a recipe; {hint}see mergekit's documentation"
    if "tokenizer_source" in merge.recipe or "tokenizer" in merge.recipe:
        yield "experts share one tokenizer here; leave tokenizer and tokenizer_source out"
    try:
        MergeConfiguration.model_validate(merge.recipe)
    except Exception as error:  # errors of pydantic and of mergekit's validators
        yield " ".join(str(error).split())[:200]


def _parameter_names(value: Any) -> Iterator[str]:
    """Keys of every `parameters` in a recipe."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "parameters" and isinstance(each, dict):
                yield from map(str, each)
            else:
                yield from _parameter_names(each)
    elif isinstance(value, list):
        for each in value:
            yield from _parameter_names(each)


def _layers(merge: Merge, files: Mapping[str, ExpertFiles]) -> Iterator[str]:
    for piece in merge.recipe.get("slices") or []:
        for source in piece.get("sources") or []:
            name, (start, end) = source["model"], source["layer_range"]
            found = (_LAYER.search(tensor) for tensor in files[name].tensors)
            layers = 1 + max((int(hit[1]) for hit in found if hit), default=-1)
            if not 0 <= start < end <= layers:
                yield f"layer_range [{start}, {end}] of {name}, which has {layers} layers"
