"""How far do engines differ on one text? Log-probs and ranks of each token, against one reference.

The reference is transformers' forward pass with eager attention in float32. The models are those of
the demo, real checkpoints of which this machine has the files; GGUF formats are those of llama.cpp,
put on the same float32 weights by the package `gguf`. What needs a GPU is left out without one.

    python benchmarks/engine_differences.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from marked_tables import RESULTS, machine, marked, replace_marked, table
from numpy.typing import NDArray

from extract.checkpoints import find_checkpoint
from extract.models.loading import Loading, load_model
from extract.scoring.engine import Engine
from extract.tokenization import load_tokenizer
from warehouse.files import write_whole
from warehouse.paths import Workspace, find_workspace
from warehouse.probes.context import full_requests
from warehouse.probes.request import Ids
from warehouse.problem.spec import Problem, load_problem
from warehouse.problem.tables import ensure_documents
from warehouse.store.provenance import code_revision

MODELS = ("smollm2-135m", "gemma3-270m")
TOKENS = 512
BLOCK = "engine_differences.json"
OUT = Path(__file__).with_name(BLOCK)
ROWS = 64
"""Tokens whose log-probs are computed at once, in float64."""

QUANTIZED = ("Q8_0", "Q4_0")
ON_A_GPU = ("eager attention in float32", "SDPA in bfloat16", "Tokenmart in bfloat16, fused layers")

Columns = dict[str, NDArray[Any]]


def of_logits(logits: Any, targets: Ids) -> Columns:
    """Log-prob and rank of each target, and the top-1 token; shape (n,) each."""
    parts = []
    for start in range(0, len(targets), ROWS):
        rows = logits[start : start + ROWS].cpu().double().log_softmax(-1)
        wanted = torch.from_numpy(targets[start : start + ROWS]).long()[:, None]
        own = rows.gather(1, wanted)
        rank = 1 + (rows > own).sum(-1)
        parts.append(torch.stack([own[:, 0], rank.double(), rows.argmax(-1).double()]))
    logprob, rank, top = torch.cat(parts, dim=1).numpy()
    return {"logprob": logprob, "rank": rank, "top": top}


def plain(model: Any, ids: Ids, scored: int) -> Columns:
    """What a forward pass of the model gives for its last `scored` tokens."""
    read = torch.from_numpy(ids).long().to(model.device)[None]
    with torch.inference_mode():
        logits = model(input_ids=read, use_cache=False).logits[0, -scored - 1 : -1]
    return of_logits(logits, ids[-scored:])


def engine(model: Any, tokens: Ids, bos: int | None) -> Columns:
    """What the engine of `tokenmart extract` gives for a text's tokens."""
    (scored,) = Engine(model, top_k=1).score(full_requests(tokens, bos))
    scores = scored.scores
    assert scores.choices is not None
    return {"logprob": scores.logprob, "rank": scores.rank, "top": scores.choices[:, 0]}


def quantize(model: Any, name: str) -> Any:
    """The model with the weights of its layers and embeddings rounded to a GGUF format."""
    from gguf import GGMLQuantizationType, quants

    kind = GGMLQuantizationType[name]
    for parameter in {id(each): each for each in model.parameters()}.values():
        if parameter.ndim == 2:
            packed = quants.quantize(parameter.detach().numpy(), kind)
            parameter.data.copy_(torch.from_numpy(quants.dequantize(packed, kind)))
    return model


def ways(loading: Loading, ids: Ids, tokens: Ids, bos: int | None) -> Iterator[tuple[str, Columns]]:
    """Each way to the same numbers, the reference first; one model in memory at a time."""

    def loaded(dtype: str, attention: str, device: str = "cpu") -> Any:
        return load_model(replace(loading, dtype=dtype, attention=attention, device=device))

    scored = len(ids) - 1
    yield "reference", plain(loaded("float32", "eager"), ids, scored)
    for dtype in ("float32", "bfloat16", "float16"):
        for attention in ("eager", "sdpa"):
            if (dtype, attention) != ("float32", "eager"):
                name = f"transformers, {attention} attention, {dtype}"
                yield name, plain(loaded(dtype, attention), ids, scored)
    for dtype in ("float32", "bfloat16"):
        model = load_model(replace(loading, dtype=dtype))
        yield f"Tokenmart, {dtype}", engine(model, tokens, bos)
    for kind in QUANTIZED:
        name = f"transformers, float32, weights as GGUF {kind}"
        yield name, plain(quantize(loaded("float32", "eager"), kind), ids, scored)
    if torch.cuda.is_available():
        card = torch.cuda.get_device_name(0)
        for dtype, attention in (("float32", "eager"), ("bfloat16", "sdpa")):
            name = f"transformers, {attention} attention, {dtype}, {card}"
            yield name, plain(loaded(dtype, attention, "cuda"), ids, scored)
        model = load_model(replace(loading, dtype="bfloat16", device="cuda"))
        yield f"Tokenmart, bfloat16, fused layers, {card}", engine(model, tokens, bos)


def compared(problem: Problem, workspace: Workspace, name: str) -> list[dict[str, Any]]:
    """Differences of a model's ways from its reference."""
    spec = problem.model(name)
    checkpoint = find_checkpoint(spec, workspace, problem.name)
    tokenizer = load_tokenizer(checkpoint, spec)
    text = str(ensure_documents(problem, workspace)["text"][0].as_py())
    tokens = tokenizer.encode(text).ids[:TOKENS]
    (request,) = full_requests(tokens, tokenizer.bos)
    found = ways(Loading(spec, checkpoint, "cpu", "float32"), request.ids, tokens, tokenizer.bos)
    _, reference = next(found)
    rows = []
    for way, columns in found:
        if not np.isfinite(columns["logprob"]).all():
            rows.append(
                {"model": name, "way": way, "tokens": len(columns["logprob"]), "mean": None}
            )
            continue
        off = np.abs(columns["logprob"] - reference["logprob"])
        differs = {each: columns[each] != reference[each] for each in ("rank", "top")}
        rows.append({
            "model": name, "way": way, "tokens": len(off),
            "mean": float(off.mean()), "rms": float(np.sqrt(np.square(off).mean())),
            "largest": float(off.max()),
            "nll": float((reference["logprob"] - columns["logprob"]).mean()),
            "other_ranks": float(differs["rank"].mean()),
            "other_top": float(differs["top"].mean()),
        })  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def results_block(found: dict[str, Any]) -> str:
    """The table as RESULTS.md shows it."""
    columns = {
        "model": "{model}", "engine": "{way}", "mean:": "{mean:.1e}",
        "root mean square:": "{rms:.1e}", "largest:": "{largest:.1e}", "mean NLL:": "{nll:+.1e}",
        "other ranks:": "{other_ranks:.1%}", "another top-1 token:": "{other_top:.1%}",
    }  # fmt: skip
    lines = table(columns, [row for row in found["rows"] if row["mean"] is not None])
    overflow = [f"{row['model']}, {row['way']}" for row in found["rows"] if row["mean"] is None]
    if overflow:
        lines += ["", f"Without a finite log-prob, since states overflow: {'; '.join(overflow)}."]
    if found["left_out"]:
        lines += ["", f"Left out, since they need a GPU: {'; '.join(found['left_out'])}."]
    return marked(BLOCK, lines)


def main() -> None:
    """Compare, and write the figures and their table."""
    workspace = find_workspace()
    problem = load_problem("demo", workspace)
    rows = [row for name in MODELS for row in compared(problem, workspace, name)]
    found = {
        **machine("torch", "transformers", "gguf"),
        "revision": code_revision()["revision"],
        "left_out": [] if torch.cuda.is_available() else list(ON_A_GPU),
        "rows": rows,
    }
    write_whole(OUT, json.dumps(found, indent=1) + "\n")
    replace_marked(RESULTS, BLOCK, results_block(found))


if __name__ == "__main__":
    main()
