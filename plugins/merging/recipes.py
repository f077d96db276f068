"""Recipes judged before any weight is read: by mergekit's own validation and plan, and by headers.

mergekit ignores parameters that its method doesn't have, cuts embeddings of unequal shapes, and
merges models whose tokenizers differ: these are refused here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from plugins.merging.eligibility import ExpertFiles, shape_difference
from plugins.merging.problem import Merge
from warehouse.errors import TokenmartError, did_you_mean


def refuse_recipe(merge: Merge, files: Mapping[str, ExpertFiles]) -> None:
    """Refuse an invalid recipe.

    Args:
        merge: the merge with its recipe.
        files: headers by expert; for an adapter, those of its base, which it is merged into. If
            an expert's are missing, only the recipe itself is checked.

    Raises:
        TokenmartError: mergekit is not installed, or the recipe is invalid (the first error).
    """
    try:
        from mergekit.merge_methods.registry import registered_methods
    except ImportError as error:
        raise TokenmartError(
            f"mergekit is not installed (no module {error.name}); `pip install -c "
            "requirements.lock -e '.[merge]'`",
            code="no-mergekit",
        ) from error
    where = f"merges.{merge.name}.recipe"
    specs = {method.spec.name: method.spec for method in registered_methods()}
    if merge.method not in specs:
        hint = did_you_mean(merge.method, specs)
        raise TokenmartError(
            f"merge {merge.name}: unknown merge_method {merge.method!r}; {hint}mergekit has: "
            f"{', '.join(sorted(specs))}",
            code="unknown-method",
            where=where,
        )
    known = [parameter.name for parameter in specs[merge.method].parameters]
    for name in _parameter_names(merge.recipe):
        if name not in known:
            raise TokenmartError(
                f"merge {merge.name}: {merge.method} has no parameter {name!r}; "
                f"{did_you_mean(name, known)}it has: {', '.join(known)}",
                code="unknown-parameter",
                where=where,
            )
    _plan(merge, files, where)
    names = merge.models()
    if not files.keys() >= set(names):
        return
    first = merge.base or names[0]
    for name in names:
        wrong = None
        if "slices" not in merge.recipe:
            wrong = shape_difference(files[name].tensors, files[first].tensors)
        if files[name].tokenizer != files[first].tokenizer:
            wrong = "their tokenizers differ"
        if wrong is not None:
            raise TokenmartError(
                f"merge {merge.name}: {name} can't be merged with {first}: {wrong}",
                code="unlike-experts",
                where=where,
            )


def with_paths(value: Any, experts: Mapping[str, str]) -> Any:
    """A recipe with paths in place of the names of experts."""
    if isinstance(value, dict):
        return {
            key: experts.get(each, each)
            if key in ("model", "base_model") and isinstance(each, str)
            else with_paths(each, experts)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [with_paths(each, experts) for each in value]
    return value


def _plan(merge: Merge, files: Mapping[str, ExpertFiles], where: str) -> None:
    """Let mergekit validate the recipe and, with the experts' files, plan the merge."""
    from mergekit.architecture import get_architecture_info
    from mergekit.common import dtype_from_name
    from mergekit.config import MergeConfiguration
    from mergekit.io.tasks import LoaderCache
    from mergekit.options import MergeOptions
    from mergekit.plan import MergePlanner

    with tempfile.TemporaryDirectory(prefix="tokenmart-plan-") as folder:
        # two adapters of one base are two inputs
        experts = {name: str(Path(folder, name)) for name in merge.models()}
        try:
            recipe = with_paths(merge.recipe, experts)
            config = MergeConfiguration.model_validate(recipe, extra="forbid")
            for name in (config.dtype, config.out_dtype):
                dtype_from_name(name)
            if files.keys() >= experts.keys():
                for name, path in experts.items():
                    Path(path).symlink_to(files[name].folder.resolve())
                options = MergeOptions(quiet=True)
                LoaderCache().setup(options)
                architecture = get_architecture_info(config, options)
                settings = (config.base_model or config.referenced_models()[0]).config()
                MergePlanner(config, architecture, options, settings).plan_to_disk(folder)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            message = f"{place}: {first['msg']}" if place else first["msg"]
            raise _invalid(merge, where, message) from error
        except Exception as error:  # whatever mergekit's validators raise
            message = " ".join(str(error).replace(f"{folder}/", "").split())[:300]
            raise _invalid(merge, where, message) from error
        finally:
            LoaderCache().flush_all()


def _invalid(merge: Merge, where: str, message: str) -> TokenmartError:
    return TokenmartError(
        f"merge {merge.name}: {message}; correct its recipe", code="invalid-recipe", where=where
    )


def _parameter_names(value: Any) -> Iterator[str]:
    """Keys of every `parameters` in a recipe."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key == "parameters" and isinstance(each, dict):
                yield from map(str, each)
            else:
                yield from _parameter_names(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _parameter_names(each)
