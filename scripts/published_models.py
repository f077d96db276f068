"""Tables of many finished models among those of published_tables.py: their rows."""

from __future__ import annotations

import ast
import csv
import io
import re
from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]
Files = Iterator[tuple[str, bytes]]

BITS_PER_BYTE = "examples/get_error_and_bpb/bpb_csvs/chunked_synthetic_sample_bpb_id.csv"
ERRORS = "examples/get_error_and_bpb/error_csvs/error.csv"
SCALING = "eval_results/base_llm_benchmark_eval.csv"

SIZE_IN_NAME = re.compile(
    r"(?<![\dx.])(?P<number>\d+(?:[._]\d+)?)(?P<unit>[bBmM])(?P<tenths>\d?)(?![A-Za-z])"
)
# names in the compression leaderboard → full ids in the table of benchmarks
COMPRESSED = {
    "Llama-3-70b": "meta-llama/Meta-Llama-3-70B",
    "Mixtral-8x22B-v0.1": "mistralai/Mixtral-8x22B-v0.1",
    "Qwen2-72B": "Qwen/Qwen2-72B",
    "Qwen1.5-110B": "Qwen/Qwen1.5-110B",
    "DeepSeek-V2": "deepseek-ai/DeepSeek-V2",
    "Mixtral-8x7B": "mistralai/Mixtral-8x7B-v0.1",
    "Qwen-72b": "Qwen/Qwen-72B",
    "Qwen-1.5-72b": "Qwen/Qwen1.5-72B",
    "Llama-2-70b": "meta-llama/Llama-2-70b-hf",
    "Qwen-1.5-32b": "Qwen/Qwen1.5-32B",
    "Deepseek-llm-67b": "deepseek-ai/deepseek-llm-67b-base",
    "Llama-3-8b": "meta-llama/Meta-Llama-3-8B",
    "Yi-34b": "01-ai/Yi-34B",
    "Llama-1-65b": "huggyllama/llama-65b",
    "Qwen-1.5-14b": "Qwen/Qwen1.5-14B",
    "Qwen-14b": "Qwen/Qwen-14B",
    "Llama-1-30b": "huggyllama/llama-30b",
    "Mistral-7b": "mistralai/Mistral-7B-v0.1",
    "Llama-2-13b": "meta-llama/Llama-2-13b-hf",
    "Falcon-40b": "tiiuae/falcon-40b",
    "Qwen-1.5-7b": "Qwen/Qwen1.5-7B",
    "Qwen-7b": "Qwen/Qwen-7B",
    "Llama-1-13b": "huggyllama/llama-13b",
    "Llama-2-7b": "meta-llama/Llama-2-7b-hf",
    "Yi-6b": "01-ai/Yi-6B",
    "Deepseek-llm-7b": "deepseek-ai/deepseek-llm-7b-base",
    "Llama-1-7b": "huggyllama/llama-7b",
    "Falcon-7b": "tiiuae/falcon-7b",
}
CORPORA = ("common_crawl", "python", "arxiv_math")


def perplexity_rows(files: Files) -> Iterator[Row]:
    """Perplexity correlations: bits per byte of 263 documents, and benchmarks, of 89 models.

    A model listed in two families with the same values is one model of the first family. Errors are
    converted to accuracies. Numbers of parameters are those in the models' names.

    Raises:
        ValueError: a model has two columns that differ.
    """
    families: dict[str, str] = {}
    for path, content in files:
        header, *lines = csv.reader(io.StringIO(content.decode()))
        columns: dict[str, list[float]] = {}
        for place, pair in enumerate(header[1:], start=1):
            family, model = ast.literal_eval(pair)
            families.setdefault(model, family)
            own = [float(line[place]) for line in lines]
            if columns.setdefault(model, own) != own:
                raise ValueError(f"{path}: two columns of {model} differ")
        for model, own in columns.items():
            run = {"model": model, "family": families[model], "parameters": size_in_name(model)}
            for line, value in zip(lines, own, strict=True):
                yield {**run, **_perplexity_measure(path, line[0], value)}


def _perplexity_measure(path: str, name: str, value: float) -> Row:
    if path == BITS_PER_BYTE:
        measure = {"benchmark": "entigraph", "metric": "bits_per_byte", "document": name.strip()}
        return {**measure, "direction": "lower", "score": value}
    if name.startswith("lambada"):
        return {"benchmark": name, "metric": "perplexity", "direction": "lower", "score": value}
    accuracy = round(1 - value, 12)
    return {"benchmark": name, "metric": "accuracy", "direction": "higher", "score": accuracy}


def size_in_name(model: str) -> int | None:
    """Number of parameters in a model's name, as in `7b1` or `1_6b`; None if it has none."""
    found = SIZE_IN_NAME.search(model.rpartition("/")[2])
    if found is None:
        return None
    digits = found["number"].replace("_", ".")
    number = float(f"{digits}.{found['tenths']}" if found["tenths"] else digits)
    return round(number * (1e9 if found["unit"] in "bB" else 1e6))


def scaling_rows(files: Files) -> Iterator[Row]:
    """Observational scaling laws: eight benchmarks, size and training of 148 base models."""
    ((_, content),) = files
    for line in csv.DictReader(io.StringIO(content.decode())):
        size, tokens = line.pop("Model Size (B)"), line.pop("Pretraining Data Size (T)")
        flops = line.pop("FLOPs (1E21)")
        facts = {"parameters": round(float(size) * 1e9)}
        if tokens:
            facts |= {
                "training_tokens": round(float(tokens) * 1e12),
                "training_flops": round(float(flops) * 1e21),
            }
        run = {
            "model": line.pop("Model"),
            "family": line.pop("Model Family"),
            "parameters": facts["parameters"],
        }
        for metric, value in facts.items():
            measure = {"benchmark": "model", "metric": metric, "direction": "higher"}
            yield {**run, **measure, "score": float(value)}
        for task, score in line.items():
            if score:
                measure = {"benchmark": task, "metric": "accuracy", "direction": "higher"}
                yield {**run, **measure, "score": float(score)}


def compression_rows(files: Files) -> Iterator[Row]:
    """Compression and intelligence: bits per character of three corpora for 28 models."""
    ((_, content),) = files
    for line in content.decode().splitlines():
        name, *cells = [cell.strip() for cell in line.strip("| ").split("|")]
        for corpus, value in zip(CORPORA, cells if name in COMPRESSED else ()):  # noqa: B905
            yield {
                "model": COMPRESSED[name],
                "benchmark": corpus,
                "metric": "bits_per_character",
                "direction": "lower",
                "score": float(value),
            }
