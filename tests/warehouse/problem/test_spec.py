"""Problem files: the shipped ones are right, and every mistake is pointed at."""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path
from typing import get_args

import pytest
import yaml
from click.testing import CliRunner
from problem_samples import GOOD
from pydantic import ValidationError
from refusal import refuses

from analysis.submission import verifier as locked
from tokenmart import cli
from warehouse.errors import ProblemFileError
from warehouse.paths import Workspace
from warehouse.plugins import kind_of
from warehouse.problem.models import Intervention, ModelSpec, Rope, slug
from warehouse.problem.spec import FileTarget, RecallTarget, RecallTask, load_problem
from warehouse.problem.target_file import read_target

ROOT = Path(__file__).parents[3]
SHIPPED = Workspace(ROOT, ROOT / "data", ROOT / "warehouse" / "tokenmart.duckdb")


def write(workspace: Workspace, text: str | bytes) -> str:
    path = workspace.problems / "tiny.yml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return "tiny"


def test_no4k_is_the_contract():
    problem = load_problem("no4k", SHIPPED)
    assert sorted(model.full_id for model in problem.ranked_models) == sorted(locked.MODELS)
    assert problem.documents.path.as_posix() == "data/proxy/govreport_50_32k_tokens.json"
    assert (problem.documents.too_long, problem.documents.margin) == ("run", 512)
    target = "results/downstream/downstream_avg.ruler32_longbench_lt32k.no4k.json"
    assert problem.target.path.as_posix() == target


@pytest.mark.parametrize(("length", "factor"), [(32768, 4), (65536, 8)])
def test_ntk_models_have_the_base_they_were_trained_with(length, factor):
    problem = load_problem("no4k", SHIPPED)
    named = f"NTK_{length // 1024}k"
    models = [model for model in problem.ranked_models if named in model.full_id]
    assert models and {model.context for model in models} == {length}
    frozen = 10000 * (factor * length / 4096 - (factor - 1)) ** (128 / 126)
    for model in models:
        assert model.rope is not None
        assert (model.rope.type, model.rope.theta) == ("default", pytest.approx(frozen, rel=1e-12))
        stock = problem.model(f"{model.full_id}-stock-dynamic")
        assert stock.rope == Rope(type="dynamic", theta=10000, factor=factor)
        assert (stock.on_request, stock.base, stock.context) == (True, model.full_id, length)


def test_context_limits_of_no4k():
    models = load_problem("no4k", SHIPPED).ranked_models
    others = {model.full_id: model.context for model in models if model.context != 32768}
    assert others == {
        "01-ai/Yi-6B-200K": 200000,
        "Leooyii/NTK_64k_Slimpajama_1B": 65536,
        "Leooyii/NTK_64k_Slimpajama_2B": 65536,
    }
    pickled = {model.full_id for model in models if model.source.pickled}
    assert pickled == {name for name in locked.MODELS if name.startswith("Leooyii/")}


def test_minilong_has_doses_of_every_kind_and_labels_them():
    """Each intervention of the tool; kinds in two doses or more on the smaller checkpoint."""
    problem = load_problem("minilong", SHIPPED)
    changed = [model for model in problem.models if model.base]
    used = {change.kind for model in changed for change in model.interventions}
    assert used == {kind_of(cls) for cls in get_args(get_args(Intervention)[0])}
    doses = Counter(model.series for model in changed if model.base == "smollm2-135m")
    assert len(doses) >= 8 and min(doses.values()) >= 2
    assert all(model.series and model.family for model in changed)
    assert {model.series for model in changed if model.base == "gemma3-270m"} <= doses.keys()
    different = {
        (model.base or model.full_id, str(model.interventions)) for model in problem.models
    }
    assert len(different) == len(problem.models)


def test_the_target_of_minilong_weighs_tasks_alike_without_the_shortest_length():
    problem = load_problem("minilong", SHIPPED)
    target = problem.target
    assert isinstance(target, RecallTarget)
    assert set(target.tasks) == set(get_args(RecallTask)) and len(target.tasks) >= 5
    assert target.counted_lengths == target.lengths[1:]
    # every length is whole blocks, and the longest has room for a question
    assert all(length % target.key_every == 0 for length in target.lengths)
    assert 8192 - 128 <= target.lengths[-1] < 8192 - 60


@pytest.mark.parametrize(("lengths", "every"), [([128, 250], 64), ([64, 256], 128)])
def test_a_length_that_is_not_whole_blocks_is_refused(lengths, every):
    """A text ends with its last block: it would be shorter than such a length."""
    target = load_problem("minilong", SHIPPED).target.model_dump()
    with pytest.raises(ValidationError) as refused:
        RecallTarget.model_validate(target | {"lengths": lengths, "key_every": every})
    assert [error["loc"] for error in refused.value.errors()] == [("key_every",)]


def test_one_length_alone_always_counts():
    problem = load_problem("minilong", SHIPPED)
    assert isinstance(problem.target, RecallTarget)
    one = problem.target.model_copy(update={"lengths": (640,)})
    assert one.counted_lengths == (640,)


def test_the_demo_is_a_part_of_minilong():
    demo, whole = (load_problem(name, SHIPPED) for name in ("demo", "minilong"))
    assert all(model == whole.model(model.full_id) for model in demo.models)
    changes = [change for model in demo.models for change in model.interventions]
    windows = [change.window for change in changes if change.kind == "attention_window"]
    # no model is its base again
    assert windows and max(windows) < (demo.documents.max_tokens or 0)
    assert isinstance(demo.target, FileTarget)
    scores = read_target(SHIPPED.root / demo.target.path).scores
    assert scores.keys() == {model.full_id for model in whole.models}


def test_a_model_inherits_from_its_base(workspace):
    problem = load_problem(write(workspace, GOOD), workspace)
    base, changed = problem.models
    assert (changed.source, changed.family, changed.licence) == (base.source, "one", "MIT")
    assert changed.base_id == base.model_id == slug("org/base") == "org--base"
    assert base.base_id is None


def test_every_key_but_name_series_and_note_is_inherited(workspace):
    given = {
        "full_id": "org/base", "source": {"kind": "local", "path": "x"}, "family": "f",
        "series": "s", "parameters": 7, "licence": "MIT", "dtype": "float16", "context": 99,
        "rope": {"type": "default", "theta": 5.0}, "bos": "never", "note": "n", "on_request": True,
        "shape": {"kind": "llama", "layers": 1, "width": 2, "inner": 3, "heads": 1, "kv_heads": 1,
                  "vocabulary": 5},
    }  # fmt: skip
    others = {"base", "interventions"}
    assert given.keys() | others == ModelSpec.model_fields.keys()
    raw = yaml.safe_load(GOOD)
    ranked = {"full_id": "org/ranked", "source": given["source"], "family": "f"}
    raw["models"] = [given, {"full_id": "org/own", "base": "org/base"}, ranked]
    base, own, _ = load_problem(write(workspace, yaml.safe_dump(raw)), workspace).models
    alike = {name for name in given if getattr(own, name) == getattr(base, name)}
    assert alike == given.keys() - {"full_id", "series", "note"}
    assert (own.series, own.note) == (None, "")


BOMB = "&l0 [0, 0, 0, 0, 0, 0, 0, 0, 0, 0], " + ", ".join(
    f"&l{level} [{', '.join([f'*l{level - 1}'] * 10)}]" for level in range(1, 30)
)
"""Aliases of aliases, thirty levels: 10^30 values."""
MISTAKES = [
    ("title: A tiny problem\n", "", "missing", 1),
    ("title:", "titel:", "missing", 1),  # and an unknown key on line 2
    ("full_id: org/base", "full_ids: org/base", "unknown-base", 11),
    ("base: org/base", "bass: org/base", "missing", 11),
    ("{kind: full}", "{kind: full, context: 8}", "extra-forbidden", 13),
    ("context: 8", "context: -8", "greater-than-equal", 14),
    ("context: 8", "context: 010", "int-type", 14),
    ("context: 8", "context: yes", "int-type", 14),
    ("context: 8", "context: true", "int-type", 14),
    ("context: 8", "context: 1:30", "int-type", 14),
    ("context: 8", "context: eight", "int-type", 14),
    ("stride: 4", "stride: 4, strid: 4", "extra-forbidden", 14),
    ("kind: window", "kind: windowed", "union-tag-invalid", 14),
    ("kind: json", "kind: pdf", "union-tag-invalid", 3),
    ("{kind: full}", "{knd: full}", "union-tag-not-found", 13),
    ("{kind: full}", "full", "dict-type", 13),
    # metrics would count each token twice
    ("{kind: full}", "{kind: full}\n  - {kind: full, name: again}", "value-error", 12),
    ("theta: 5000", "scaling: linear", "value-error", 11),
    ("{kind: rope, theta: 5000}", "{kind: rope}", "value-error", 11),
    ("[{kind: rope, theta: 5000}]", "{kind: rope, theta: 5000}", "tuple-type", 11),
    ("base: org/base", "base: org/bass", "unknown-base", 11),
    ("base: org/base", "base: [org/base]", "unknown-base", 11),
    ("org/changed", "org/base", "value-error", 6),
    # ids that would share a folder; some disks ignore case
    ("org/changed", "org--base", "value-error", 6),
    ("org/changed", "Org/Base", "value-error", 6),
    ("family: one", "family: one\n    on_request: true", "value-error", 6),
    ("name: window_8", "name: Window 8", "string-pattern-mismatch", 14),
    ("family: one", "family: one\n    family: two", "not-yaml", 9),
    ("family: one", "family: one\n    ? [a]\n    : 1", "not-yaml", 9),
    ("title: A tiny", "title: !!python/object/apply:os.system [ls] #", "not-yaml", 2),
    ("title: A tiny problem", "title: !!binary aGVsbG8=", "not-yaml", 1),
    ("title: A tiny problem", "title: !!timestamp 2026-01-01", "not-yaml", 1),
    ("title: A tiny problem", "title: &a [*a]", "not-yaml", 1),
    ("title: A tiny problem", f"title: [{BOMB}]", "not-yaml", 1),
    ("theta: 5000", "theta: .inf", "finite-number", 11),
    ("title: A tiny problem", "title: " + "[" * 5000, "not-yaml", 1),
    ("stride: 4}", "stride: 4}\n---\nname: two", "not-yaml", 15),
    ("family: one", "family:", "string-type", 8),
    ("title: A", "title: [A", "not-yaml", 3),
    ("org/changed", "../changed", "string-pattern-mismatch", 11),
    ("path: docs.json", "path: docs.json\n  too_long: cut", "literal-error", 6),
    ("path: docs.json", "path: docs.json\n  margin: 8", "value-error", 3),
    ("path: docs.json", "path: docs.json\n  headroom: 8", "value-error", 3),
    ("path: docs.json", "path: docs.json\n  room: 8", "value-error", 3),
    ("licence: MIT", "rope: {type: default}", "value-error", 9),
    ("licence: MIT", "rope: {type: linear}", "value-error", 9),
    ("licence: MIT", "rope: {type: ntk}", "literal-error", 9),
    ("{kind: local,", "{kind: local, pickle: true,", "extra-forbidden", 10),
    (GOOD, "", "not-yaml", 1),
    (GOOD, "- a\n- b\n", "not-yaml", 1),
]
"""The original text, the mistake, its code and its line."""


@pytest.mark.parametrize(("old", "new", "code", "line"), MISTAKES)
def test_a_mistake_has_a_code_and_a_line(workspace, old, new, code, line):
    assert old in GOOD
    with pytest.raises(ProblemFileError) as caught:
        load_problem(write(workspace, GOOD.replace(old, new, 1)), workspace)
    where = f"{workspace.problems / 'tiny.yml'}:{line}"
    assert (caught.value.code, caught.value.where) == (code, where)


def test_text_that_is_not_utf8(workspace):
    with pytest.raises(ProblemFileError) as caught:
        load_problem(write(workspace, b"name: tiny\ntitle: \xff"), workspace)
    where = f"{workspace.problems / 'tiny.yml'}:2"
    assert (caught.value.code, caught.value.where) == ("not-yaml", where)


def test_unknown_names_list_what_there_is(workspace):
    problem = load_problem(write(workspace, GOOD), workspace)
    for find, code in ((problem.model, "unknown-model"), (problem.probe, "unknown-probe")):
        with refuses(code, "x"):
            find("x")
    for name in ("none", "tinny"):
        with pytest.raises(ProblemFileError) as caught:
            load_problem(name, workspace)
        assert (caught.value.code, caught.value.where) == ("no-problem-file", name)
        assert "tiny" in caught.value.message


def test_an_id_with_two_dashes_stays_itself(workspace):
    problem = load_problem(write(workspace, GOOD.replace("org/changed", "org--changed")), workspace)
    spec = problem.models[1]
    assert (spec.full_id, spec.model_id) == ("org--changed", "org--changed")
    assert problem.model("org--changed") is spec
    assert problem.model("org--base") is problem.model("org/base") is problem.models[0]


def test_a_problem_needs_no_target(workspace):
    text = GOOD.replace("target: {kind: file, path: target.json}\n", "")
    problem = load_problem(write(workspace, text), workspace)
    assert problem.target is None


def test_several_mistakes_are_a_line_each(workspace):
    text = GOOD.replace("title:", "titel:").replace("stride: 4", "strid: -4")
    text = text.replace("{kind: file, path: target.json}", "{kind: file}")
    with pytest.raises(ProblemFileError) as caught:
        load_problem(write(workspace, text), workspace)
    path = workspace.problems / "tiny.yml"
    lines = caught.value.message.splitlines()
    places = [line.strip().removeprefix(f"{path}:").split(": ")[:2] for line in lines]
    assert places == [
        ["1", "file"],
        ["2", "titel"],
        ["14", "probes[1]"],
        ["14", "probes[1].strid"],
        ["15", "target"],
    ]


def test_dates_stay_text_and_anchors_are_read(workspace):
    text = GOOD.replace("A tiny problem", "2026-11-22").replace("licence: MIT", "licence: &mit MIT")
    text = text.replace("family: one", "family: &f one\n    note: *f")
    text = text.replace("theta: 5000", "theta: 5e3") + "labels_known_since: 2026-11-23\n"
    problem = load_problem(write(workspace, text), workspace)
    assert (problem.title, problem.models[0].note) == ("2026-11-22", "one")
    assert problem.models[1].interventions[0].theta == 5000.0
    assert problem.labels_known_since == date(2026, 11, 23)


def test_a_wrong_file_has_no_traceback(workspace):
    path = workspace.root / "mine.yml"
    path.write_text(GOOD.replace("context: 8", "context: eight"))
    result = CliRunner().invoke(cli, ["extract", "--problem", str(path), "--dry-run"])
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    assert result.output.startswith(f"error: {path}:14: probes[1].context: 'eight': ")


def test_paths_start_at_the_problem_file_unless_it_ships(workspace):
    write(workspace, GOOD)
    ships = load_problem("tiny", workspace)
    assert (ships.documents.path, ships.models[0].source.path) == (Path("docs.json"), Path("base"))
    folder = workspace.root.parent / "elsewhere"
    folder.mkdir()
    (folder / "tiny.yml").write_text(GOOD.replace("path: base", "path: ~/base"))
    own = load_problem(str(folder / "tiny.yml"), workspace)
    assert own.documents.path == folder / "docs.json"
    assert own.models[0].source.path == own.models[1].source.path == Path.home() / "base"
    assert own.target is not None and own.target.path == folder / "target.json"
    assert own.folders(workspace).resolve(own.documents.path) == folder / "docs.json"
    assert own.argument == str(folder / "tiny.yml")
    assert ships.argument == "tiny"
