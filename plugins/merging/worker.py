"""A merge in a process of its own, which a watchdog may end: `python -m … JOB`.

The folder it runs in holds `experts/NAME`, links to checkpoints; the result is written to `merged`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def merge_adapter(base: Path, adapter: Path, out: Path) -> None:
    """Write a base with a LoRA adapter merged into its weights, in float32, as a checkpoint."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    merged = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
    merged.save_pretrained(out)
    AutoTokenizer.from_pretrained(base).save_pretrained(out)
    # the base's own file, byte for byte: a library may write it otherwise
    (out / "tokenizer.json").write_bytes((base / "tokenizer.json").read_bytes())


def run_job(job: dict[str, Any]) -> None:
    """Merge adapters into their bases, then the experts as the recipe says."""
    from mergekit.config import MergeConfiguration
    from mergekit.merge import run_merge
    from mergekit.options import MergeOptions

    for name, parts in job["adapters"].items():
        merge_adapter(Path(parts["base"]), Path(parts["adapter"]), Path("experts") / name)
    recipe = _with_paths(job["recipe"], set(job["experts"]))
    run_merge(
        MergeConfiguration.model_validate(recipe),
        out_path="merged",
        options=MergeOptions(
            random_seed=job["seed"], write_model_card=False, quiet=True, device=job["device"]
        ),
    )


def _with_paths(value: Any, experts: set[str]) -> Any:
    if isinstance(value, dict):
        return {
            key: f"experts/{each}"
            if key in ("model", "base_model") and each in experts
            else _with_paths(each, experts)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_with_paths(each, experts) for each in value]
    return value


if __name__ == "__main__":
    run_job(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
