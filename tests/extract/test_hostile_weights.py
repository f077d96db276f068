"""Weights that lie about themselves: one line each, and nothing is loaded."""

from __future__ import annotations

import json
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from tiny_runs import one_line_error, run

from warehouse.paths import Workspace

pytestmark = pytest.mark.hostile

MOST_BYTES = 300 << 20
SECONDS = 5


def safetensors(folder: Path, header: bytes, size: int | None = None, data: int = 64) -> None:
    length = struct.pack("<Q", len(header) if size is None else size)
    (folder / "model.safetensors").write_bytes(length + header + bytes(data))


def tensors(**changes: Any) -> bytes:
    tensor = {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64], **changes}
    return json.dumps({"model.embed_tokens.weight": tensor}).encode()


def config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def nested(folder: Path) -> None:
    (folder / "config.json").write_text("[" * 100_000 + "]" * 100_000)


BROKEN: dict[str, Callable[[Path], object]] = {
    "a header of 2^63 bytes": lambda f: safetensors(f, b"{}", 2**63),
    "a header longer than the file": lambda f: safetensors(f, b"{}", 1 << 20),
    "a header 50,000 deep": lambda f: safetensors(f, b"[" * 50_000),
    "a shape of exabytes": lambda f: safetensors(f, tensors(shape=[2**40, 2**20])),
    "offsets beyond the end": lambda f: safetensors(f, tensors(data_offsets=[2**40, 2**41])),
    "no weights at all": lambda f: (f / "model.safetensors").write_bytes(b""),
    "a configuration that is a list": lambda f: (f / "config.json").write_text("[1]"),
    "a configuration 100,000 deep": nested,
    "words for numbers": lambda f: config(f, num_hidden_layers="many", hidden_size=[32]),
    "a text part that is a list": lambda f: config(f, text_config=[1]),
    "a width of 10^15": lambda f: config(f, hidden_size=10**15),
    "10^9 layers": lambda f: config(f, num_hidden_layers=10**9),
    "a kind that is a number": lambda f: config(f, model_type=7),
    "an index that is a list": lambda f: (f / "model.safetensors.index.json").write_text("[]"),
    "an index of files elsewhere": lambda f: (f / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"w": "../../../etc/passwd"}})
    ),
}
GGUF: dict[str, bytes] = {
    "10^18 tensors": b"GGUF" + struct.pack("<IQQ", 3, 10**18, 0),
    "10^18 fields": b"GGUF" + struct.pack("<IQQ", 3, 0, 10**18),
    "a name of 2^60 bytes": b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**60) + b"name",
    "a list of 2^60 texts": b"GGUF"
    + struct.pack("<IQQQ", 3, 0, 1, 4)
    + b"list"
    + struct.pack("<IIQ", 9, 8, 2**60),
    "a list of 2^60 numbers": b"GGUF"
    + struct.pack("<IQQQ", 3, 0, 1, 4)
    + b"list"
    + struct.pack("<IIQ", 9, 4, 2**60),
    "cut off": b"GGUF" + struct.pack("<I", 3),
    "another format": b"PK\x03\x04" * 20,
}


def check(problem: Path) -> str:
    memory = psutil.Process().memory_info().rss
    started = time.process_time()
    result = run(problem, "--model", "tiny/one")
    assert time.process_time() - started < SECONDS
    assert psutil.Process().memory_info().rss - memory < MOST_BYTES
    assert "1 failed (listed above), of 1 of 1 model;" in one_line_error(result, 5)
    (line,) = (each for each in result.output.splitlines() if each.startswith("error: tiny/one"))
    assert len(line) < 600, line
    return line


@pytest.fixture
def models(workspace: Workspace, tiny_problem: Callable[..., Path]) -> Callable[..., Path]:
    """Write a problem of which the first model has the given source."""

    def write(source: dict[str, Any]) -> Path:
        path = tiny_problem(texts=1, probes=[{"kind": "full"}])
        raw = yaml.safe_load(path.read_text())
        raw["models"][0]["source"] = source
        path.write_text(yaml.safe_dump(raw))
        return path

    return write


@pytest.mark.parametrize("how", BROKEN)
def test_a_checkpoint_with_false_metadata_is_one_line(models, tiny_checkpoint, tmp_path, how):
    folder = shutil.copytree(tiny_checkpoint("llama", True, 0), tmp_path / "model")
    BROKEN[how](folder)
    check(models({"kind": "local", "path": str(folder)}))


@pytest.mark.parametrize("how", GGUF)
def test_a_gguf_file_with_false_metadata_is_one_line(models, tmp_path, how):
    file = tmp_path / "model.gguf"
    file.write_bytes(GGUF[how])
    line = check(models({"kind": "gguf", "path": str(file)}))
    assert line.startswith(f"error: tiny/one: {file} ")
