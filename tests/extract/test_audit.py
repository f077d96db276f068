"""Audits: intact stores pass, altered rows are found as the bound says, causes are named."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from click.testing import CliRunner
from json_records import records
from tiny_runs import ok, run

from extract.audit.audit import audit_samples, published_dtype
from extract.audit.rows import (
    Sample,
    differing,
    forwards_of,
    logits_at,
    recomputed,
    sampled_places,
    share_found,
    stored_columns,
    tolerance,
)
from extract.planning.documents import documents_of
from extract.planning.plan import plan_model
from extract.planning.selection import select
from tokenmart import cli
from warehouse.problem.spec import load_problem
from warehouse.problem.tables import ensure_documents
from warehouse.progress import no_progress
from warehouse.sql.audits import audit_line
from warehouse.store.ledger import read_units
from warehouse.store.token_files import published_path, read_rows, write_units


def audit(path, *options, code=0):
    words = ["data", "audit", "--problem", str(path), "--device", "cpu", "--json", *options]
    done = CliRunner().invoke(cli, words)
    return records(done, "data audit", code)


def states(rows):
    return {(row["model_id"], row["condition"]): row["state"] for row in rows}


def altered(rows, places, by):
    """Rows whose log-probs are lower by so many nats in some places."""
    logprob = rows["logprob"].to_numpy().copy()
    logprob[places] -= by
    index = rows.schema.get_field_index("logprob")
    return rows.set_column(index, rows.schema.field(index), pa.array(logprob, pa.float32()))


def test_a_store_is_audited_once_until_its_units_change(workspace, tiny_problem):
    path = tiny_problem(texts=2)
    ok(run(path))
    planned = audit(path, "--dry-run", "--tokens", "300")
    assert {row["state"] for row in planned} == {"not audited"}
    assert audit_line(workspace, "tiny") == ""
    first = audit(path, "--tokens", "300")
    assert set(states(first).values()) == {"agrees"} and len(first) == 8
    assert [row["sampled"] for row in first] == [row["planned"] for row in planned]
    assert "8 of 8 conditions" in audit_line(workspace, "tiny")
    assert f"{sum(row['sampled'] for row in first)} rows" in audit_line(workspace, "tiny")
    again = audit(path, "--tokens", "300")
    assert [row["tokens"] for row in again] == [0] * 8
    assert any(row["tokens"] for row in audit(path, "--dry-run", "--seed", "1"))
    # a fifth of one condition's rows is wrong: the audit is outdated, and the next one finds it
    file = published_path(workspace, "tiny", "tiny--one", "full")
    units, rows = read_units(file), read_rows(file)
    wrong = altered(rows, slice(0, None, 5), 0.01)
    write_units(file, [*_rehashed(units, wrong)], [wrong])
    planned = audit(path, "--dry-run", "--tokens", "300")
    changed = {key for key, state in states(planned).items() if state == "outdated"}
    assert changed == {("tiny--one", "full")}
    assert "7 of 8 conditions" in audit_line(workspace, "tiny")
    assert "1 condition." in audit_line(workspace, "tiny")
    found = audit(path, "--tokens", "300", code=4)
    assert {key for key, state in states(found).items() if state == "differs"} == changed
    assert "tiny--one full (unknown)" in audit_line(workspace, "tiny")


def _rehashed(units, rows):
    from warehouse.store.ledger import content_sha256

    for unit in units:
        own = rows.filter(pa.compute.equal(rows["doc_id"], unit.doc_id))
        yield replace(unit, content_sha256=content_sha256(own))


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("clustered", [False, True])
def test_wrong_rows_are_found_as_often_as_the_bound_says(share, clustered):
    """200 seeds; of rows in a row, too, of which strata find more."""
    n, k = 5000, 60
    wrong = np.zeros(n, dtype=bool)
    rng = np.random.default_rng(1)
    start = rng.integers(0, n - int(share * n))
    wrong[np.arange(start, start + int(share * n)) if clustered
          else rng.permutation(n)[: int(share * n)]] = True  # fmt: skip
    found = [wrong[sampled_places(n, k, seed, "a")].any() for seed in range(200)]
    bound = 1 - (1 - share) ** k
    # three standard errors of 200 draws
    slack = 3 * np.sqrt(bound * (1 - bound) / 200) + 1e-9
    assert np.mean(found) >= bound - slack
    assert clustered or np.mean(found) <= bound + slack


def test_every_row_is_drawn_alike():
    drawn = np.concatenate([sampled_places(97, 13, seed, "a") for seed in range(4000)])
    counts = np.bincount(drawn, minlength=97)
    assert abs(counts / counts.mean() - 1).max() < 0.2
    assert share_found(60) == pytest.approx(1 - 0.05 ** (1 / 60), abs=1e-12)
    assert (1 - share_found(60)) ** 60 == pytest.approx(0.05, abs=1e-12)


class Plain:
    """Logits of a model's forward for each document behind its BOS, shape (n, vocabulary)."""

    def __init__(self, folder, **changes):
        from transformers import AutoConfig, AutoModelForCausalLM

        config = AutoConfig.from_pretrained(folder)
        for name, value in changes.items():
            setattr(config, name, value)
        self.model = AutoModelForCausalLM.from_pretrained(folder, config=config, dtype="float32")
        self.model.eval()

    def __call__(self, ids, window=None, **options):
        if window:
            near = torch.ones(len(ids), len(ids)).tril().triu(1 - window).bool()
            options["attention_mask"] = near[None, None]
        with torch.inference_mode():
            return self.model(torch.tensor(ids)[None], **options).logits[0].float()


def noisy(plain, scale):
    copy = deepcopy(plain)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for each in copy.model.parameters():
            each.add_(scale * each.std() * torch.randn(each.shape, generator=generator))
    return copy


def rounded(plain, dtype):
    copy = deepcopy(plain)
    copy.model.to(dtype)
    return copy


def columns(logits, targets):
    logprobs = logits.double().log_softmax(-1)
    own = logprobs.gather(1, torch.as_tensor(targets).long()[:, None])
    return {
        "logprob": own[:, 0].numpy(),
        "entropy": torch.special.entr(logprobs.exp()).sum(-1).numpy(),
        "rank": 1 + (logprobs > own).sum(-1).numpy(),
    }


def cases(plain, folder, other_folder):
    """Cause → function (ids with BOS) → columns of its rows; three severities each."""

    def of(model, change=lambda logits: logits, **options):
        return lambda ids: columns(change(model(ids, **options))[:-1], ids[1:])

    def beginning(ids, start, also=()):
        """Rows behind a beginning that another program has in place of the BOS."""
        own = columns(plain(ids)[:-1], ids[1:])
        logits = plain([*also, *ids[start:]])
        first = start - len(also)  # the first row whose token that program scores
        theirs = columns(logits[:-1], [*also, *ids[start:]][1:])
        skipped = len(own["rank"]) - len(theirs["rank"])
        assert skipped == first
        return {n: np.concatenate([own[n][:skipped], theirs[n]]) for n in own}

    def entries(ids, step):
        own = columns(plain(ids)[:-1], ids[1:])
        return {n: np.roll(values, step) for n, values in own.items()}

    def zeros(ids, count):
        own = columns(plain(ids)[:-1], ids[1:])
        for name, value in (("logprob", 0.0), ("entropy", 0.0), ("rank", 1)):
            own[name][:count] = value
        return own

    def rope(theta, **scaling):
        parameters = {"rope_type": "default", "rope_theta": theta, **scaling}
        return of(Plain(folder, rope_parameters=parameters))

    return {
        "temperature": [of(plain, lambda x, t=t: x / t) for t in (0.7, 0.95, 1.5)],
        "offset by one": [
            lambda ids: entries(ids, 1),
            lambda ids: entries(ids, -1),
            lambda ids: beginning(ids, 2, ids[:1]),
        ],
        "stale prefix": [lambda ids, n=n: zeros(ids, n) for n in (16, 32, 64)],
        "another BOS": [
            lambda ids: beginning(ids, 1),
            lambda ids: beginning(ids, 1, [1]),
            lambda ids: beginning(ids, 1, [7]),
        ],
        "another RoPE or window": [rope(theta) for theta in (20_000, 1e6, 1e8)],
        "another RoPE or window (scaled)": [
            rope(10_000, rope_type="linear", factor=1.25),
            rope(10_000, rope_type="yarn", factor=4.0, original_max_position_embeddings=64),
            rope(
                10_000,
                rope_type="llama3",
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=64,
            ),
        ],
        "another RoPE or window (narrow)": [of(plain, window=n) for n in (16, 64, 128)],
        "another dtype": [
            of(rounded(plain, torch.bfloat16)),
            of(rounded(plain, torch.float16)),
            of(plain, lambda x: x.bfloat16().float()),
        ],
        "another checkpoint": [
            of(Plain(other_folder)),
            *(of(noisy(plain, s)) for s in (0.3, 0.03)),
        ],
    }


def sample_from(plan, rows, requests, places):
    shortest = rows.sort_by("context_tokens").slice(0, 8)
    return Sample("full", rows.take(places), shortest, requests, published_dtype(plan))


def cause(plan, rows, requests):
    sample = sample_from(plan, rows, requests, sampled_places(rows.num_rows, 200, 0, "full"))
    return audit_samples(plan, [sample], 0)[0]["cause"]


@pytest.fixture
def extracted(workspace, tiny_problem):
    """Plan, rows and requests of a model's condition `full`, and ids of its texts with BOS."""
    path = tiny_problem(texts=3, probes=[{"kind": "full"}])
    ok(run(path, "--model", "tiny/one"))
    problem = load_problem(str(path), workspace)
    selection = select(problem, workspace, models=["tiny/one"], device="cpu", dtype="auto")
    plan = plan_model(selection, selection.models[0], ())
    (condition,) = selection.conditions
    requests = {}
    for document in documents_of(ensure_documents(problem, workspace), None):
        reading = plan.reading(document, plan.tokenize(document), (condition,))
        (request,) = condition.build(reading)
        requests[document.doc_id, 0] = request
    rows = read_rows(published_path(workspace, "tiny", "tiny--one", "full"))
    return plan, rows, requests, [request.ids.tolist() for request in requests.values()]


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_altered_rows_are_found_as_often_as_the_bound_says(share, extracted, tiny_checkpoint):
    """A hundredth of a nat in a share of all rows; 200 samples, and none of intact rows differs."""
    plan, rows, requests, _ = extracted
    whole = [sample_from(plan, rows, requests, np.arange(rows.num_rows))]
    forwards, stored = forwards_of(whole, merged=True), stored_columns(whole)
    model = Plain(tiny_checkpoint("llama", True, 0)).model
    rms, worst = tolerance(model, forwards[0].ids)
    rng, n, k = np.random.default_rng(0), rows.num_rows, 40
    own = recomputed(model, forwards, np.full(n, worst), no_progress)
    found = []
    for seed in range(200):
        altered = stored["logprob"].copy()
        altered[rng.permutation(n)[: round(share * n)]] -= 0.01
        places = sampled_places(n, k, seed, "full")
        intact, theirs = ({name: each[places] for name, each in columns.items()}
                          for columns in (stored, own))  # fmt: skip
        assert not differing(intact, theirs, rms, worst).any()
        wrong = intact | {"logprob": altered[places]}
        found.append(differing(wrong, theirs, rms, worst).any())
    bound = 1 - (1 - round(share * n) / n) ** k
    assert abs(np.mean(found) - bound) <= 3 * np.sqrt(bound * (1 - bound) / 200) + 1e-9


def test_causes_are_named(extracted, tiny_checkpoint):
    plan, rows, requests, texts = extracted
    assert cause(plan, rows, requests) == ""
    folder = tiny_checkpoint("llama", True, 0)
    plain = Plain(folder)
    found = {}
    for name, severities in cases(plain, folder, tiny_checkpoint("llama", True, 5)).items():
        for number, plant in enumerate(severities):
            planted = [plant(ids) for ids in texts]
            table = rows
            for column in planted[0]:
                index = table.schema.get_field_index(column)
                values = np.concatenate([each[column] for each in planted])
                kind = table.schema.field(index)
                table = table.set_column(index, kind, pa.array(values).cast(kind.type))
            found[name, number] = cause(plan, table, requests)
    assert {
        key: named for key, named in found.items() if not named.startswith(key[0].split(" (")[0])
    } == {}


def test_an_audited_text_does_not_change_the_next_ones_frequencies(tiny_checkpoint):
    """Dynamic RoPE keeps those of its longest input, here of 200 tokens; 96 are beyond 64, too."""
    folder = tiny_checkpoint("llama_ntk", True, 0)
    model, alone = Plain(folder).model, Plain(folder)
    ids = np.random.default_rng(0).integers(2, 300, 200).astype(np.int32)
    logits_at(model, ids, np.array([199]))
    every = np.arange(96)
    torch.testing.assert_close(logits_at(model, ids[:96], every), alone(ids[:96].tolist()))
    # nor may tokens behind the last place be left out: frequencies are those of the whole text
    longer = Plain(folder)(ids.tolist())[:96]
    torch.testing.assert_close(logits_at(model, ids, every), longer)
    assert (logits_at(model, ids[:96], every) - longer).abs().max() > 1e-3
