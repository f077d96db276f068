"""Recipes judged before any weight is read: by mergekit's own validation and plan, and by headers.

mergekit ignores parameters that its method doesn't have, cuts embeddings of unequal shapes, and
merges models whose tokenizers differ: these are refused here.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plugins.merging.eligibility import shape_difference
from plugins.merging.experts import ExpertFiles
from plugins.merging.problem import MODEL_KEYS, Merge, settings
from warehouse.errors import TokenmartError


def refuse_recipe(merge: Merge, files: Mapping[str, ExpertFiles]) -> None:
    """Refuse an invalid recipe.

    Args:
        merge: the merge with its recipe.
        files: of its experts; for an adapter, those of its base, which it is merged into.

    Raises:
        TokenmartError: mergekit is not installed, or the recipe is invalid (the first error).
    """
    try:
        from mergekit.merge_methods.registry import get
    except ImportError as error:
        raise TokenmartError(
            f"mergekit is not installed (no module {error.name}); `pip install -c "
            "requirements.lock -e '.[merge]'`",
            code="no-mergekit",
        ) from error

    def refused(code: str, message: str) -> TokenmartError:
        where = f"merges.{merge.name}.recipe"
        return TokenmartError(f"merge {merge.name}: {message}", code=code, where=where)

    try:
        _plan(merge, files)
        known = [parameter.name for parameter in get(merge.method).spec.parameters]
    except Exception as error:  # whatever mergekit's validators raise
        raise refused("invalid-recipe", " ".join(str(error).split())[:300]) from error
    for at, value in settings(merge.recipe):
        unknown = sorted(value.keys() - known) if at[-1] == "parameters" else []
        if unknown:
            raise refused(
                "unknown-parameter",
                f"{merge.method} has no parameter {unknown[0]!r}; it has: {', '.join(known)}",
            )
    names = merge.models()
    first = merge.base or names[0]
    for name in names:
        wrong = None
        if "slices" not in merge.recipe:
            wrong = shape_difference(files[name].shapes, files[first].shapes)
        if files[name].tokenizer != files[first].tokenizer:
            wrong = "their tokenizers differ"
        if wrong is not None:
            raise refused("unlike-experts", f"{name} can't be merged with {first}: {wrong}")


def with_paths(value: Any, experts: Mapping[str, str]) -> Any:
    """A recipe with paths in place of the names of experts."""
    if isinstance(value, dict):
        return {
            key: experts.get(part, part)
            if key in MODEL_KEYS and isinstance(part, str)
            else with_paths(part, experts)
            for key, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [with_paths(each, experts) for each in value]
    return value


def _plan(merge: Merge, files: Mapping[str, ExpertFiles]) -> None:
    """Let mergekit validate the recipe and plan the merge."""
    from mergekit.architecture import get_architecture_info
    from mergekit.common import dtype_from_name
    from mergekit.config import MergeConfiguration
    from mergekit.io.tasks import LoaderCache
    from mergekit.options import MergeOptions
    from mergekit.plan import MergePlanner

    with tempfile.TemporaryDirectory(prefix="tokenmart-plan-") as folder:
        # two adapters of one base are two inputs
        experts = {name: str(Path(folder, name)) for name in merge.models()}
        for name, path in experts.items():
            Path(path).symlink_to(files[name].folder.resolve())
        config = MergeConfiguration.model_validate(
            with_paths(merge.recipe, experts), extra="forbid"
        )
        for dtype in (config.dtype, config.out_dtype):
            dtype_from_name(dtype)
        options = MergeOptions(quiet=True)
        try:
            LoaderCache().setup(options)
            architecture = get_architecture_info(config, options)
            model = (config.base_model or config.referenced_models()[0]).config()
            MergePlanner(config, architecture, options, model).plan_to_disk(folder)
        finally:
            LoaderCache().flush_all()
