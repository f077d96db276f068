"""Recipes judged before any weight is read: method, inputs, bases, shapes, tokenizers, layers.

mergekit ignores a key that it does not know within a model or a slice, a filter that no tensor's
name has, and a parameter of the whole merge that is given for one model: they are refused here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from plugins.merging.eligibility import ExpertFiles, shape_difference
from plugins.merging.problem import Merge
from warehouse.errors import TokenmartError, did_you_mean

_LAYER = re.compile(r"\.layers\.(\d+)\.")
_SHARES = {"density", "select_topk"}
"""Parameters that are shares, from 0 to 1."""
_ZERO = 1e-6
"""A sum of weights is 0 within this share of their sizes: mergekit adds them in float32."""
_DIVIDES = {"linear": "normalize", "multislerp": "normalize_weights"}
"""Methods that divide by the sum of the weights even if it is 0, and the switch for it."""


def refuse_recipe(merge: Merge, files: Mapping[str, ExpertFiles]) -> None:
    """Refuse an invalid recipe.

    Args:
        merge: the merge with its recipe.
        files: headers by expert; for an adapter, those of its base, which it is merged into. If
            an expert's are missing, only the recipe itself is checked.

    Raises:
        TokenmartError: mergekit is not installed, or the recipe is invalid (the first error).
    """
    wrong = next(_mistakes(merge, files), None)
    if wrong is not None:
        raise TokenmartError(f"merge {merge.name}: {wrong}; correct its recipe")


def _mistakes(merge: Merge, files: Mapping[str, ExpertFiles]) -> Iterator[str]:
    specs = _methods()
    method = merge.method
    if not method:
        yield (
            "it has no merge_method; recipes of mergekit-moe and mergekit's other programs can't "
            "be merged here"
        )
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
    if merge.base is not None and merge.base not in names:
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
    if not files.keys() >= set(names):
        return
    tensors = {tensor for name in names for tensor in files[name].tensors}
    yield from _mistakes_in_parts(merge.recipe, spec, tensors)
    for inputs, outer in _inputs(merge.recipe, ()):
        yield from _given_twice(inputs)
        if method in _DIVIDES:
            yield from _no_sum(merge, inputs, outer, tensors)
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
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        yield f"{place + ': ' if place else ''}{first['msg'].removeprefix('Value error, ')}"
    except Exception as error:  # what mergekit's validators raise
        yield " ".join(str(error).split())[:200]
    for model in _unnamed(merge.recipe):
        yield (
            f"model {model!r}, expected the name of an expert; mergekit's other forms of a model "
            "are not read here"
        )


def _unnamed(value: Any) -> Iterator[Any]:
    """Models of a recipe that are no names."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key in ("model", "base_model") and each is not None and not isinstance(each, str):
                yield each
            else:
                yield from _unnamed(each)
    elif isinstance(value, list):
        for each in value:
            yield from _unnamed(each)


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
    modules = (merge.recipe.get("modules") or {}).values()
    for whole in (merge.recipe, *modules):
        for piece in whole.get("slices") or []:
            for source in piece.get("sources") or []:
                name, (start, end) = source["model"], source["layer_range"]
                found = (_LAYER.search(tensor) for tensor in files[name].tensors)
                layers = 1 + max((int(hit[1]) for hit in found if hit), default=-1)
                if not 0 <= start < end <= layers:
                    yield (
                        f"layer_range [{start}, {end}] of {name}, which has {layers} layers (0 to "
                        f"{layers}, the end not included)"
                    )


def _mistakes_in_parts(
    recipe: Mapping[str, Any], spec: Any, tensors: Collection[str]
) -> Iterator[str]:
    """What is wrong in a recipe's models, slices and parameters, a line each.

    Args:
        recipe: mergekit's own YAML.
        spec: of its method.
        tensors: names of the experts' tensors.
    """
    yield from _unknown_keys(recipe)
    yield from _dtypes(recipe)
    parameters = {each.name: each for each in spec.parameters}
    for place, of_model, given in _parameters(recipe, "", False):
        for name, value in given.items():
            if name not in parameters:
                continue  # reported with the method's own
            where = f"{place}parameters.{name}"
            if of_model and parameters[name].scope.value == "shared":
                yield (
                    f"{where} is for the whole merge and has no effect with one model; write it "
                    "into the recipe's own parameters"
                )
            yield from _value(where, name, value, parameters[name], tensors)


def _inputs(
    part: Mapping[str, Any], outer: tuple[Mapping[str, Any], ...]
) -> Iterator[tuple[list[Mapping[str, Any]], tuple[Mapping[str, Any], ...]]]:
    """Each list of models that are merged with each other, and the parameters that they share.

    The shared parameters are those of the slice, the module and the recipe, the first being used.
    """
    outer = (part.get("parameters") or {}, *outer)
    for inputs in (part.get("models"), part.get("sources")):
        if inputs:
            yield inputs, outer
    for inner in (*(part.get("slices") or ()), *(part.get("modules") or {}).values()):
        yield from _inputs(inner, outer)


def _given_twice(inputs: list[Mapping[str, Any]]) -> Iterator[str]:
    names = [str(each["model"]) for each in inputs]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"{name} is listed {names.count(name)} times; list it once, with its whole weight"


def _no_sum(
    merge: Merge,
    inputs: list[Mapping[str, Any]],
    outer: tuple[Mapping[str, Any], ...],
    tensors: Collection[str],
) -> Iterator[str]:
    """Weights that add up to 0 and that are divided by their sum.

    Args:
        merge: the merge, with a method that divides.
        inputs: the models, with their own parameters.
        outer: parameters that they share, the first being used.
        tensors: names of the experts' tensors.
    """
    switch = _DIVIDES[merge.method]
    for tensor in sorted(tensors):
        if _setting(switch, outer, tensor) in (False, 0):
            continue
        numbers = _weights(merge, inputs, outer, tensor)
        if merge.method == "multislerp" and numbers and len(numbers) == 1:
            continue  # returned as it is
        if numbers is not None and abs(sum(numbers)) <= _ZERO * sum(map(abs, numbers)):
            yield (
                f"the weights {', '.join(f'{each:g}' for each in numbers)} of {tensor} add up to "
                f"0, and {merge.method} divides by their sum unless {switch} is false"
            )
            return


def _weights(
    merge: Merge,
    inputs: list[Mapping[str, Any]],
    outer: tuple[Mapping[str, Any], ...],
    tensor: str,
) -> list[float] | None:
    """Weights of the models but the base; None if they change with the layer."""
    found = [
        _setting("weight", (each.get("parameters") or {}, *outer), tensor)
        for each in inputs
        if each["model"] != merge.base
    ]
    numbers = [float(each) for each in found if isinstance(each, int | float | str)]
    return numbers if len(numbers) == len(found) else None


def gives_the_base(merge: Merge, files: Mapping[str, ExpertFiles]) -> bool:
    """Whether a valid merge only adds differences from its base that have the weight 0."""
    if not {"lambda", "weight"} <= {each.name for each in _methods()[merge.method].parameters}:
        return False
    tensors = {tensor for name in merge.models() for tensor in files[name].tensors}
    return all(
        _setting("lambda", outer, tensor) == 0
        or not any(_weights(merge, inputs, outer, tensor) or [1.0])
        for inputs, outer in _inputs(merge.recipe, ())
        for tensor in tensors
    )


def _setting(name: str, sources: Iterable[Mapping[str, Any]], tensor: str) -> Any:
    """The value of a parameter for a tensor; a list if it changes with the layer; None without."""
    for given in sources:
        found = _chosen(given.get(name), tensor)
        if found is not None:
            return found
    return None


def _chosen(value: Any, tensor: str) -> Any:
    conditions = value if isinstance(value, list) else [value]
    if not any(isinstance(each, Mapping) for each in conditions):
        return value
    for each in conditions:
        if each.get("filter") in (None, "*") or each["filter"] in tensor:
            return _chosen(each.get("value"), tensor)
    return None


def _unknown_keys(recipe: Mapping[str, Any]) -> Iterator[str]:
    from mergekit.config import (
        InputModelDefinition,
        InputSliceDefinition,
        OutputModuleDefinition,
        OutputSliceDefinition,
    )

    kinds: dict[str, Any] = {
        "models": InputModelDefinition,
        "sources": InputSliceDefinition,
        "slices": OutputSliceDefinition,
        "modules": OutputModuleDefinition,
    }
    for place, kind, part in _parts(recipe, ""):
        known = kinds[kind].model_fields
        for key in part:
            if key not in known:
                hint = did_you_mean(str(key), list(known))
                yield f"unknown key {place}{key}; {hint}it may have: {', '.join(known)}"


def _parts(recipe: Mapping[str, Any], place: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Place, kind and content of every model, slice and module."""
    for kind in ("models", "slices", "sources", "modules"):
        found = recipe.get(kind)
        named = found.items() if isinstance(found, Mapping) else enumerate(found or ())
        for name, part in named:
            if isinstance(part, Mapping):
                where = f"{place}{kind}.{name}."
                yield where, kind, part
                yield from _parts(part, where)


def _dtypes(recipe: Mapping[str, Any]) -> Iterator[str]:
    from mergekit.common import dtype_from_name

    for key in ("dtype", "out_dtype"):
        try:
            dtype_from_name(recipe.get(key))
        except (RuntimeError, AttributeError):
            yield f"{key} {recipe[key]!r}; mergekit has bfloat16, float16, float32 and float64"


def _parameters(
    part: Mapping[str, Any], place: str, of_model: bool
) -> Iterator[tuple[str, bool, Mapping[str, Any]]]:
    """Place and content of every `parameters`, and whether they are one model's."""
    if isinstance(given := part.get("parameters"), Mapping):
        yield place, of_model, given
    for where, kind, inner in _parts(part, place):
        if isinstance(given := inner.get("parameters"), Mapping):
            yield where, kind in ("models", "sources"), given


def _value(
    where: str, name: str, value: Any, parameter: Any, tensors: Collection[str]
) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _value(where, name, each, parameter, tensors)
        return
    if isinstance(value, Mapping):
        chosen = value.get("filter")
        if unknown := set(value) - {"filter", "value"}:
            yield f"unknown key {min(unknown)!r} in {where}; it may have: filter, value"
        if isinstance(chosen, str) and chosen != "*" and not any(chosen in t for t in tensors):
            yield f"{where}: no tensor's name has the filter {chosen!r}"
        yield from _value(where, name, value.get("value"), parameter, tensors)
        return
    try:
        found = parameter.validate(value)
    except (ValueError, TypeError, RuntimeError):
        yield f"{where} is {value!r}, expected {_kind(parameter)}"
        return
    if isinstance(found, float) and not math.isfinite(found):
        yield f"{where} is {value!r}, expected a finite number"
    elif name in _SHARES and not 0 <= found <= 1:
        yield f"{where} is {value!r}, expected a share from 0 to 1"


def _kind(parameter: Any) -> str:
    kinds = {float: "a number", int: "a whole number", bool: "true or false"}
    return kinds.get(parameter.value_type, "another value")
