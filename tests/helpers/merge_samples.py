"""Merge problems of small made-up checkpoints: headers as real ones, a few numbers inside."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import yaml

SHAPES = {
    "model.embed_tokens.weight": (32, 8),
    "model.layers.0.self_attn.q_proj.weight": (8, 8),
    "model.norm.weight": (8,),
}
PARAMETERS = 32 * 8 + 64 + 8


def write_weights(
    path: Path, shapes: dict[str, tuple[int, ...]], seed: int = 0, dtype: str = "F32"
) -> None:
    """Random float32 tensors; of another dtype only the header is true and the file is sparse."""
    width = {"F32": 4, "F8_E4M3": 1, "U8": 1}[dtype]
    header: dict[str, Any] = {}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + width * int(np.prod(shape, dtype=np.int64))
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        if dtype == "F32":
            draw = np.random.default_rng(seed)
            file.write(draw.normal(size=end // 4).astype("<f4").tobytes())
        else:
            file.truncate(8 + len(text) + end)


def make_expert(folder: Path, shapes: dict[str, tuple[int, ...]] | None = None, **how: Any) -> Path:
    """A checkpoint's folder; `vocabulary` changes its tokenizer, `seed` its weights."""
    folder.mkdir(parents=True)
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps({"words": how.pop("vocabulary", ["a"])}))
    write_weights(folder / "model.safetensors", shapes or SHAPES, **how)
    return folder


def make_adapter(folder: Path, shapes: dict[str, tuple[int, ...]] | None = None) -> Path:
    """A LoRA adapter of rank 2 for the query projection."""
    folder.mkdir(parents=True)
    stem = "base_model.model.model.layers.0.self_attn.q_proj"
    sides = {f"{stem}.lora_A.weight": (2, 8), f"{stem}.lora_B.weight": (8, 2)}
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2}))
    write_weights(folder / "adapter_model.safetensors", shapes or sides)
    return folder


def local(path: Path) -> dict[str, str]:
    """The `source` of a folder."""
    return {"kind": "local", "path": str(path)}


def write_problem(path: Path, **sections: Any) -> Path:
    """A merge problem with these sections."""
    raw = {"kind": "merge", "name": "made", "title": "Made up", **sections}
    path.write_text(yaml.safe_dump(raw))
    return path


def refusals(stderr: str) -> list[str]:
    """Lines that a command said in error; on a slow machine lines of progress come before them."""
    return [line for line in stderr.splitlines() if not line.startswith("[ ")]


def write_made_up_tasks(folder: Path, prefix: str, count: int) -> list[str]:
    """A multiple-choice task `…_reading` and an exact-answer task `…_code`; their prompts."""
    from plugins.merging.task_files import CHOICE, EXACT, write_task

    choices = ["no", "yes"]
    reading = [
        {
            "prompt": f"{prefix}: {'a number follows; ' * 20}is {n} even?\nAnswer:",
            "choices": choices,
            "gold": 1 - n % 2,
        }
        for n in range(count)
    ]
    code = [
        {"prompt": f"def {prefix}_{n}(a):\n    return", "answer": f"a + {n}"} for n in range(count)
    ]
    write_task(folder, f"{prefix}_reading", CHOICE, reading)
    write_task(folder, f"{prefix}_code", EXACT, code)
    return [str(row["prompt"]) for row in (*reading, *code)]
