"""Run one merge in a separate process that a watchdog may end: `python -m … JOB`.

Its working folder contains `experts/NAME`, links to checkpoints; the result is written to `merged`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def merge_adapter(base: Path, adapter: Path, out: Path) -> None:
    """Write a base with a LoRA adapter merged into its weights, in float32, as a checkpoint."""
    import torch
    from peft import PeftModel, get_peft_model_state_dict
    from peft.utils import load_peft_weights
    from transformers import AutoTokenizer

    from extract.models.weights import load_weights, refuse_incomplete

    model = load_weights(base, str(base), dtype=torch.float32).model
    adapted = PeftModel.from_pretrained(model, str(adapter))
    asked, stored = set(get_peft_model_state_dict(adapted)), set(load_peft_weights(str(adapter)))
    refuse_incomplete(str(adapter), asked - stored, stored - asked)
    adapted.merge_and_unload().save_pretrained(out)
    AutoTokenizer.from_pretrained(base).save_pretrained(out)
    # copy the base's own file, because a library may write it differently
    (out / "tokenizer.json").write_bytes((base / "tokenizer.json").read_bytes())


def run_job(job: dict[str, Any]) -> None:
    """Merge adapters into their bases, then merge the experts by the recipe."""
    from mergekit.config import MergeConfiguration
    from mergekit.merge import run_merge
    from mergekit.options import MergeOptions

    from plugins.merging.recipes import with_paths

    for name, parts in job["adapters"].items():
        merge_adapter(Path(parts["base"]), Path(parts["adapter"]), Path("experts") / name)
    for name in job["experts"]:
        _refuse_incomplete_expert(name)
    recipe = with_paths(job["recipe"], {name: f"experts/{name}" for name in job["experts"]})
    run_merge(
        MergeConfiguration.model_validate(recipe),
        out_path="merged",
        options=MergeOptions(
            random_seed=job["seed"], write_model_card=False, quiet=True, device="cpu"
        ),
    )
    _refuse_not_finite(Path("merged"))


def _refuse_not_finite(folder: Path) -> None:
    """Stop at a merged model with NaN or infinite weights.

    Raises:
        TokenmartError: a tensor has such values.
    """
    from safetensors import safe_open

    from warehouse.errors import TokenmartError

    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                tensor = file.get_tensor(name)
                if tensor.is_floating_point() and not tensor.isfinite().all():
                    raise TokenmartError(
                        f"tensor {name} of the merged model has values that are not finite; the "
                        "recipe's weights are too large for its dtype, or add up to 0"
                    )


def _refuse_incomplete_expert(name: str) -> None:
    """Refuse an incomplete expert that mergekit would accept; no weights are read.

    Raises:
        TokenmartError: tensors are missing, or wrappers of torch changed their names.
    """
    from extract.models.weights import COMPLETE, load_weights
    from warehouse.errors import TokenmartError

    record = load_weights(Path("experts") / name, name, device_map="meta").record
    if record != COMPLETE:
        raise TokenmartError(f"{name}: {record}; save it again without them")


if __name__ == "__main__":
    from warehouse.errors import TokenmartError

    try:
        run_job(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    except TokenmartError as error:
        # the parent process prints the last line
        sys.exit(error.format_message())
