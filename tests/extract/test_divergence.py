"""Divergence from a reference model: equal to the softmax of both models' logits in float64."""

from __future__ import annotations

import shutil
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import torch
from checkpoint_samples import spec_of, write_gguf
from click.testing import CliRunner
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from numpy.typing import NDArray
from reference import FACTOR, plain_logprobs
from refusal import refuses
from tiny_models import PROBES, make_checkpoint
from tiny_requests import load, requests_of
from tiny_runs import ok, one_line_error, run
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from extract.checkpoints import find_checkpoint
from extract.cli import extract
from extract.models.loading import Loading, load_model
from extract.planning.cost import model_size
from extract.planning.plan import plan_model
from extract.planning.selection import Selection, select
from extract.planning.status import status_rows
from extract.planning.tables import make_plan
from extract.scoring.divergence import Comparer, pair_sums, states_of
from extract.scoring.engine import Engine
from extract.tokenization import refuse_other_vocabularies
from warehouse.errors import ProblemFileError
from warehouse.paths import Workspace
from warehouse.probes.request import Request
from warehouse.problem.spec import load_problem
from warehouse.sql.views import create_views

FULL: Request = requests_of(0)[0]


def expected(
    reference: torch.Tensor, model: torch.Tensor
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """KL both ways and equal top-1 tokens, of log-probs of shape (targets, vocabulary)."""
    common = min(reference.shape[1], model.shape[1])
    p, q = (each[:, :common].log_softmax(-1) for each in (reference, model))
    forth, back = (p.exp() * (p - q)).sum(-1), (q.exp() * (q - p)).sum(-1)
    return forth.numpy(), back.numpy(), (p.argmax(-1) == q.argmax(-1)).numpy()


def compared(reference: Any, model: Any) -> Any:
    first = Engine(reference)
    return Comparer(Engine(model), first.head_weights).score(FULL, states_of(first, FULL))


@pytest.mark.parametrize("tile", [37, 49_152])
@pytest.mark.parametrize(
    ("reference", "model"),
    [("llama", "llama"), ("gemma2", "gemma2"), ("gemma2", "llama"), ("granite", "cohere")],
)
def test_divergences_are_those_of_both_plain_models(
    reference, model, tile, tiny_checkpoint, monkeypatch
):
    monkeypatch.setattr("extract.scoring.head.CPU_TILE", tile)
    monkeypatch.setattr("extract.scoring.head.ALIGNMENT", 1)
    first, second = load(tiny_checkpoint(reference)), load(tiny_checkpoint(model, seed=1))
    in_float64 = [deepcopy(each).double() for each in (first, second)]
    scored = compared(first, second)
    plain = [plain_logprobs(each, FULL) for each in (first, second)]
    forth, back, same = expected(*plain)
    np.testing.assert_allclose(scored.divergence.kl_reference_model, forth, rtol=1e-6)
    np.testing.assert_allclose(scored.divergence.kl_model_reference, back, rtol=1e-6)
    assert abs(scored.divergence.kl_reference_model.mean() / forth.mean() - 1) < 1e-6
    np.testing.assert_array_equal(scored.divergence.same_top, same)
    # two right float32 computations differ as much as each differs from the models in float64
    exact = expected(*(plain_logprobs(each, FULL) for each in in_float64))
    for own, plain32, truth in zip(
        (scored.divergence.kl_reference_model, scored.divergence.kl_model_reference),
        (forth, back),
        exact,
        strict=False,
    ):
        assert np.abs(own - truth).max() < FACTOR * np.abs(plain32 - truth).max()
    (alone,) = Engine(second).score([FULL])
    np.testing.assert_array_equal(scored.scores.logprob, alone.scores.logprob)
    np.testing.assert_array_equal(scored.scores.entropy, alone.scores.entropy)
    spread = plain[1].exp() * (plain[1] - (plain[1].exp() * plain[1]).sum(-1, keepdim=True)) ** 2
    np.testing.assert_allclose(scored.scores.varentropy, spread.sum(-1), rtol=1e-4)


def test_logits_stay_where_they_have_the_exact_dtype_already():
    """Float32 on Apple's GPUs: the head reads the same tile afterwards."""
    torch.manual_seed(0)
    reference, own = torch.randn(2, 3, 7, dtype=torch.float64)
    before = reference.clone(), own.clone()
    sums = pair_sums(reference, own)
    assert torch.equal(reference, before[0]) and torch.equal(own, before[1])
    torch.testing.assert_close(sums[:, 0], torch.stack(before).logsumexp(-1))


@pytest.mark.parametrize("bits", ["Q8_0", "Q4_0"])
def test_a_quantised_gguf_against_its_float_original(bits, workspace, tmp_path):
    """The plain quantised model is the float one with weights that went through gguf's rounding."""
    config = AutoConfig.for_model(
        "llama", hidden_size=64, intermediate_size=96, num_hidden_layers=2, vocab_size=320,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
        bos_token_id=0, eos_token_id=1, tie_word_embeddings=False, rms_norm_eps=1e-5,
    )  # fmt: skip
    torch.manual_seed(0)
    made = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8.0)
    made.save_pretrained(tmp_path / "float")
    original, rounded = load(tmp_path / "float"), load(tmp_path / "float")
    path = workspace.root / f"{bits}.gguf"
    write_rounded(path, rounded, bits)
    spec = spec_of(path, "gguf")
    found = find_checkpoint(spec, workspace, "tiny")
    gguf_model = load_model(Loading(spec, found, "cpu", "float32"))
    scored = compared(original, gguf_model).divergence
    forth, back, same = expected(*(plain_logprobs(each, FULL) for each in (original, rounded)))
    assert forth.mean() > 1e-4
    # float32 logits: see the tolerance of two plain models above
    np.testing.assert_allclose(scored.kl_reference_model, forth, rtol=1e-4)
    assert abs(scored.kl_reference_model.mean() / forth.mean() - 1) < 1e-5
    assert abs(scored.kl_model_reference.mean() / back.mean() - 1) < 1e-5
    np.testing.assert_array_equal(scored.same_top, same)


def write_rounded(path: Path, model: Any, bits: str) -> None:
    """Write a Llama as GGUF with quantised matrices; the model gets the rounded weights, too."""
    config, kind = model.config, GGMLQuantizationType[bits]
    names = {
        "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
        "model.layers": "blk", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    }  # fmt: skip
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    tensors: dict[str, tuple[NDArray[Any], Any]] = {}
    for name, parameter in model.named_parameters():
        written, number = parameter.detach().numpy(), heads.get(name.split(".")[-2])
        matrix = written.ndim > 1
        if matrix:
            written = quantize(written, kind)
            parameter.data.copy_(torch.from_numpy(dequantize(written, kind)))
        if number:
            # rows of a rotated pair lie side by side; a block of weights lies within a row
            halves = written.reshape(number, 2, -1, written.shape[-1])
            written = halves.swapaxes(1, 2).reshape(written.shape)
        for own, other in names.items():
            name = name.replace(own, other)
        tensors[name] = written, kind if matrix else None
    write_gguf(path, words=config.vocab_size, config=config, tensors=tensors)


@pytest.mark.parametrize(("rows", "other_rows"), [(384, 320), (320, 384)])
def test_padding_of_one_head_is_left_out(rows, other_rows, tiny_checkpoint):
    """Both predictions sum to 1 over the ids that both heads have."""
    models = [load(tiny_checkpoint("llama", seed=seed)) for seed in (0, 1)]
    for model, size in zip(models, (rows, other_rows), strict=True):
        model.resize_token_embeddings(size, mean_resizing=False)
    found = compared(*models).divergence
    forth, back, same = expected(*(plain_logprobs(model, FULL) for model in models))
    np.testing.assert_allclose(found.kl_reference_model, forth, rtol=1e-5)
    np.testing.assert_allclose(found.kl_model_reference, back, rtol=1e-5)
    np.testing.assert_array_equal(found.same_top, same)


def of_tiny(folder: Path, name: str, **settings: Any) -> dict[str, Any]:
    """An entry of a problem file's models."""
    source = {"kind": "local", "path": str(folder)}
    return {"full_id": f"tiny/{name}", "family": "t", "dtype": "float32", "source": source} | (
        settings
    )


FOUR_BITS = [{"kind": "quantize", "bits": 4, "group": 16}]


def selected(path: Path, workspace: Workspace, **options: Any) -> Selection:
    problem = load_problem(str(path), workspace)
    return select(problem, workspace, device="cpu", dtype="auto", **options)


DIVERGENCE = {"kind": "divergence", "reference": "tiny/one"}


def test_divergences_are_stored_with_their_units(workspace, tiny_problem, tiny_checkpoint):
    one = tiny_checkpoint("llama")
    models = [
        of_tiny(one, "one"),
        of_tiny(one, "4-bit", interventions=FOUR_BITS),
        of_tiny(tiny_checkpoint("llama", seed=1), "other"),
    ]
    path = tiny_problem(texts=2, models=models, probes=[PROBES[0], DIVERGENCE])
    assert "extracted 12 units" in ok(run(path))
    assert "extracted 0 units" in ok(run(path))
    with duckdb.connect() as connection:
        create_views(connection, workspace)
        found = connection.execute(
            "select model_id, count(*), sum(kl_reference_model), sum(kl_model_reference),"
            " bool_and(same_top), count(*) filter (tokens.logprob != whole.logprob)"
            " from divergences"
            " inner join tokens using (problem, model_id, condition, doc_id, segment, position)"
            " inner join tokens as whole"
            " using (problem, model_id, doc_id, segment, position)"
            " where whole.condition = 'full' group by all order by model_id"
        ).fetchall()
        cost = connection.execute(
            "select model_id, sum(tokens_processed) / sum(rows) from units"
            " where condition = 'divergence' group by all order by all"
        ).fetchall()
    (_, rows, *few_bits_kl, _, differing), itself, other = found
    assert rows == itself[1] == other[1] > 100
    assert itself[2:5] == (0, 0, True)
    assert 0 < few_bits_kl[0] < other[2] and 0 < few_bits_kl[1] < other[3] and not other[4]
    assert differing == itself[5] == other[5] == 0
    # the reference's tokens are booked on the first model that needed them
    assert [round(ratio) for _, ratio in cost] == [1, 2, 1]
    # nothing of the scratch file is left
    assert not list(workspace.store.glob("tmp*"))


def test_another_reference_recomputes_only_divergences(workspace, tiny_problem, tiny_checkpoint):
    one, two = tiny_checkpoint("llama"), tiny_checkpoint("llama", seed=1)
    models = [of_tiny(one, "one"), of_tiny(two, "two")]
    probes = [PROBES[0], DIVERGENCE]
    ok(run(tiny_problem(texts=1, models=models, probes=probes)))
    # the reference itself is replaced: in the problem file, then its weights
    for change in ("interventions", "weights"):
        models[0] = of_tiny(one, "one", interventions=FOUR_BITS)
        if change == "weights":
            models[0] = of_tiny(tiny_checkpoint("llama", seed=2), "one")
        path = tiny_problem(texts=1, models=models, probes=probes)
        selection = selected(path, workspace)
        of_two = [row for row in status_rows(selection) if row["model"] == "tiny/two"]
        assert [(row["condition"], row["done"], row["outdated"]) for row in of_two] == [
            ("full", 1, 0),
            ("divergence", 0, 1),
        ]
        # the unit of tiny/one is of another model, too
        assert [model.done for model in make_plan(selection).models] == [0, 1]
        assert "extracted 1 unit " in ok(run(path, "--model", "tiny/two"))
        assert [model.done for model in make_plan(replace(selection)).models] == [0, 2]
    stored = (workspace.store / "divergences").rglob("model_id=tiny--two/**/*.parquet")
    assert len(list(stored)) == 1
    probes[1] = {**DIVERGENCE, "reference": "tiny/two"}
    path = tiny_problem(texts=1, models=models, probes=probes)
    assert "extracted 1 unit " in ok(run(path, "--model", "tiny/two"))


def test_a_plan_counts_the_reference(workspace, tiny_problem, tiny_checkpoint):
    one = tiny_checkpoint("llama")
    models = [of_tiny(one, "one"), of_tiny(one, "two")]
    probes = [PROBES[0], DIVERGENCE]
    selection = selected(tiny_problem(texts=2, models=models, probes=probes), workspace)
    bare = replace(selection, conditions=selection.conditions[:1])
    (first, second), (alone, _) = make_plan(selection).models, make_plan(bare).models
    size = model_size(selection.models[0], workspace)
    assert size is not None
    shape, rows = size.shape, alone.cost.rows
    head = 2 * shape.vocabulary * shape.width * rows
    backbone = alone.cost.flops - head
    # `full` and `divergence` read and score the same tokens
    assert (first.cost.tokens, second.cost.tokens) == (3 * alone.cost.tokens, 2 * alone.cost.tokens)
    assert first.cost.flops == 3 * backbone + 3 * head
    assert second.cost.flops == 2 * backbone + 3 * head
    speed = alone.cost.flops / alone.cost.seconds
    assert first.cost.seconds == pytest.approx(first.cost.flops / speed)
    assert (first.cost.scratch_bytes, second.cost.scratch_bytes) == (rows * shape.width * 4, 0)
    assert first.cost.disk_bytes == second.cost.disk_bytes == (10 + 10 + 9) * rows
    assert first.memory is not None and alone.memory is not None
    # one float32 head on the host, and one packed; logits of both
    added = 2 * shape.vocabulary * shape.width * 4
    assert first.memory.weights - alone.memory.weights == added
    assert first.memory.logits == int(alone.memory.logits * 5 / 3)
    assert alone.cost.scratch_bytes == 0


def test_models_with_other_tokens_are_refused_by_name(workspace, tiny_problem, tmp_path):
    one = make_checkpoint(tmp_path / "one")
    models = [
        of_tiny(one, "one"),
        of_tiny(one, "no-bos", bos="never"),
        of_tiny(make_checkpoint(tmp_path / "fewer", vocabulary=300), "fewer"),
        of_tiny(shutil.copytree(one, tmp_path / "added"), "added"),
    ]
    # a chat marker that was added later changes no prediction of text
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "added")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|chat|>"]})
    tokenizer.save_pretrained(tmp_path / "added")
    path = tiny_problem(texts=1, models=models, probes=[PROBES[0], DIVERGENCE])
    for spec in selected(path, workspace).models:
        selection = selected(path, workspace, models=[spec.full_id])
        if spec.full_id in ("tiny/no-bos", "tiny/fewer"):
            with refuses("other-vocabulary", f"{spec.full_id}, tiny/one"):
                plan_model(selection, spec, ())
            with refuses("other-vocabulary", f"{spec.full_id}, tiny/one"):
                refuse_other_vocabularies(selection, fetch=False)
        else:
            refuse_other_vocabularies(selection, fetch=False)
            assert list(plan_model(selection, spec, ()).references) == ["tiny/one"]
    # before anything is scored or even planned
    for options in (["--dry-run"], []):
        result = run(path, *options)
        assert isinstance(result.exception, SystemExit) and "tiny/no-bos" in result.output
        assert "tiny/one" in one_line_error(result, result.exit_code)
    assert not list(workspace.store.rglob("*.parquet"))
    assert "extracted 4 units" in ok(run(path, "--model", "tiny/one", "--model", "tiny/added"))


def test_a_model_that_is_not_here_is_not_compared_in_a_dry_run(workspace, tiny_problem, tmp_path):
    models = [of_tiny(make_checkpoint(tmp_path / "one"), "one"), of_tiny(tmp_path / "no", "two")]
    path = tiny_problem(texts=1, models=models, probes=[PROBES[0], DIVERGENCE])
    ok(run(path, "--dry-run"))
    one_line_error(run(path), 5)
    stored = {file.parts[-3] for file in workspace.tokens.rglob("tokens.parquet")}
    assert stored == {"model_id=tiny--one"}


def test_nothing_is_fetched_for_a_comparison_that_a_processor_refuses(
    workspace, tiny_problem, monkeypatch
):
    monkeypatch.setattr("extract.cli.LONGEST_CPU_HOURS", 1e-12)
    monkeypatch.setattr("extract.devices.resolve_device", lambda asked: "cpu")
    fetched: list[object] = []
    monkeypatch.setattr("extract.tokenization.find_checkpoint", lambda *a: fetched.append(a))
    monkeypatch.setattr("extract.tokenization.checkpoint_here", lambda *a: None)
    path = tiny_problem(texts=1, probes=[PROBES[0], DIVERGENCE])
    one_line_error(CliRunner().invoke(extract, ["--problem", str(path)]), 1)
    assert not fetched


def test_a_reference_must_be_a_model_of_the_file(workspace, tiny_problem):
    path = tiny_problem(probes=[PROBES[0], {**DIVERGENCE, "reference": "tiny/three"}])
    with pytest.raises(ProblemFileError) as refused:
        load_problem(str(path), workspace)
    assert "tiny/three" in refused.value.format_message()


def test_a_reference_that_fails_stops_only_what_needs_it(workspace, tiny_problem, tiny_checkpoint):
    one = tiny_checkpoint("llama")
    refused = of_tiny(one, "one", interventions=[{"kind": "drop_layers", "layers": [9]}])
    models = [refused, of_tiny(one, "two")]
    path = tiny_problem(texts=1, models=models, probes=[PROBES[0], DIVERGENCE])
    result = run(path, "--model", "tiny/two")
    one_line_error(result, 5)
    stored = [file.parent.name for file in workspace.tokens.rglob("tokens.parquet")]
    assert sorted(stored) == ["condition=divergence", "condition=full"]
    assert not list((workspace.store / "divergences").rglob("*.parquet"))
