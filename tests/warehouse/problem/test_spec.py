"""Problem files: the shipped ones are right, and every mistake is pointed at."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from problem_samples import GOOD
from pydantic import ValidationError

from analysis.submission import verifier as locked
from warehouse.errors import ProblemFileError
from warehouse.paths import Workspace
from warehouse.plugins import kind_of
from warehouse.problem.models import Intervention, Rope, slug
from warehouse.problem.needs import problem_needs
from warehouse.problem.spec import RecallTarget, RecallTask, load_problem
from warehouse.sources.weights import HubSource

ROOT = Path(__file__).parents[3]
SHIPPED = Workspace(ROOT, ROOT / "data", ROOT / "warehouse" / "tokenmart.duckdb")


def write(workspace: Workspace, text: str | bytes) -> str:
    path = workspace.problems / "tiny.yml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return "tiny"


def test_no4k_is_the_contract() -> None:
    problem = load_problem("no4k", SHIPPED)
    assert sorted(model.full_id for model in problem.ranked_models) == sorted(locked.MODELS)
    assert problem.documents.path.as_posix() == "data/proxy/govreport_50_32k_tokens.json"
    assert (problem.documents.too_long, problem.documents.margin) == ("run", 512)
    target = "results/downstream/downstream_avg.ruler32_longbench_lt32k.no4k.json"
    assert problem.target.path.as_posix() == target


@pytest.mark.parametrize(("length", "factor"), [(32768, 4), (65536, 8)])
def test_ntk_models_have_the_base_they_were_trained_with(length: int, factor: int) -> None:
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


def test_context_limits_of_no4k() -> None:
    models = load_problem("no4k", SHIPPED).ranked_models
    others = {model.full_id: model.context for model in models if model.context != 32768}
    assert others == {
        "01-ai/Yi-6B-200K": 200000,
        "Leooyii/NTK_64k_Slimpajama_1B": 65536,
        "Leooyii/NTK_64k_Slimpajama_2B": 65536,
    }
    pickled = {model.full_id for model in models if model.source.pickled}
    assert pickled == {name for name in locked.MODELS if name.startswith("Leooyii/")}


def test_minilong_is_small_real_and_diverse() -> None:
    problem = load_problem("minilong", SHIPPED)
    assert problem.documents.count == 50
    assert {model.source.kind for model in problem.models} == {"package"}
    assert len({model.source for model in problem.models}) == 2
    assert len(problem.models) >= 20
    assert {probe.kind for probe in problem.probes} == {"full", "window", "retrieval"}
    assert problem.demo is not None
    assert len(problem.demo.models) >= 8


def test_minilong_has_doses_of_every_kind_and_labels_them() -> None:
    """Each intervention of the tool; kinds in two doses or more on the smaller checkpoint."""
    problem = load_problem("minilong", SHIPPED)
    changed = [model for model in problem.models if model.base]
    used = {change.kind for model in changed for change in model.interventions}
    assert used == {kind_of(cls) for cls in get_args(get_args(Intervention)[0])}
    doses = Counter(model.kind for model in changed if model.base == "smollm2-135m")
    assert len(doses) >= 8 and min(doses.values()) >= 2
    assert all(model.kind and model.family for model in changed)
    assert {model.kind for model in changed if model.base == "gemma3-270m"} <= doses.keys()
    different = {
        (model.base or model.full_id, str(model.interventions)) for model in problem.models
    }
    assert len(different) == len(problem.models)


def test_the_target_of_minilong_weighs_tasks_alike_without_the_shortest_length() -> None:
    problem = load_problem("minilong", SHIPPED)
    target = problem.target
    assert isinstance(target, RecallTarget)
    assert set(target.tasks) == set(get_args(RecallTask)) and len(target.tasks) >= 5
    assert target.counted_lengths == target.lengths[1:]
    # every length is whole blocks, and the longest has room for a question
    assert all(length % target.key_every == 0 for length in target.lengths)
    assert 8192 - 128 <= target.lengths[-1] < 8192 - 60


def test_one_length_alone_always_counts() -> None:
    problem = load_problem("minilong", SHIPPED)
    assert isinstance(problem.target, RecallTarget)
    one = problem.target.model_copy(update={"lengths": (640,)})
    assert one.counted_lengths == (640,)


def test_no_model_of_the_demo_is_its_base_again() -> None:
    problem = load_problem("minilong", SHIPPED)
    demo = problem.demo
    assert demo is not None and demo.lengths is not None
    windows = [
        change.window
        for name in demo.models
        for change in problem.model(name).interventions
        if change.kind == "attention_window"
    ]
    assert windows and max(windows) < min(demo.max_tokens, demo.lengths[-1])


def test_a_model_inherits_from_its_base(workspace: Workspace) -> None:
    problem = load_problem(write(workspace, GOOD), workspace)
    base, changed = problem.models
    assert (changed.source, changed.family, changed.licence) == (base.source, "one", "MIT")
    assert changed.base_id == base.model_id == slug("org/base") == "org--base"
    assert base.base_id is None


def test_a_hub_model_needs_only_its_id(workspace: Workspace) -> None:
    text = GOOD.replace("{kind: local, path: base}", "{kind: hub}")
    assert load_problem(write(workspace, text), workspace).models[0].source == HubSource(kind="hub")


def test_problems_are_frozen(workspace: Workspace) -> None:
    problem = load_problem(write(workspace, GOOD), workspace)
    with pytest.raises(ValidationError, match="frozen"):
        problem.models[0].family = "other"  # type: ignore[misc]


def test_a_path_is_a_name_too(workspace: Workspace) -> None:
    write(workspace, GOOD)
    assert load_problem(str(workspace.problems / "tiny.yml"), workspace).name == "tiny"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("title: A tiny problem\n", "", r"tiny\.yml:1: file: key 'title' is missing; add it"),
        ("title:", "titel:", r"tiny\.yml:2: titel: unknown key 'titel'; did you mean 'title'\?$"),
        ("full_id: org/base", "full_ids: org/base", r":7: .*'full_ids'; did you mean 'full_id'\?"),
        ("base: org/base", "bass: org/base", r":11: models\[1\]\.bass: .*did you mean 'base'\?"),
        (
            "{kind: full}",
            "{kind: full, context: 8}",
            r"tiny\.yml:13: probes\[0\]\.context: unknown key 'context'; remove it, or use one "
            "of: name, top_k$",
        ),
        ("context: 8", "context: -8", r"tiny\.yml:14: probes\[1\].*context.*-8"),
        ("context: 8", "context: eight", r"tiny\.yml:14: .*'eight'"),
        ("stride: 4", "strid: 4", r"tiny\.yml:14: .*'strid'; did you mean 'stride'\?$"),
        (
            "kind: window",
            "kind: windowed",
            r"tiny\.yml:14: probes\[1\]\.kind: kind 'windowed' is unknown; did you mean 'window'\? "
            "The kinds are: copy, far, full, halves, ladder, needle, retrieval, window$",
        ),
        (
            "kind: json",
            "kind: pdf",
            r":4: .*kind 'pdf' is unknown; use one of: folder, json, sdist$",
        ),
        ("{kind: full}", "{knd: full}", r":13: .*unknown key 'knd'; did you mean 'kind'\?$"),
        ("{kind: full}", "{name: a}", r"'kind' is missing; add it with one of: copy, far, full"),
        (
            "{kind: full}",
            "full",
            r"tiny\.yml:13: probes\[0\]: 'full': must be a section with the keys",
        ),
        ("theta: 5000", "scaling: linear", r"tiny\.yml:11: .*scaling and factor go together"),
        ("{kind: rope, theta: 5000}", "{kind: rope}", r"tiny\.yml:11: .*changes nothing"),
        ("base: org/base", "base: org/bass", r"tiny\.yml:11: .*'org/bass'"),
        ("org/changed", "org/base", r"model 'org/base' is listed twice; remove one"),
        ("name: window_8", "name: Window 8", r"tiny\.yml:14: .*'Window 8'"),
        (
            "family: one",
            "family: one\n    family: two",
            r"tiny\.yml:9: key 'family' is given twice",
        ),
        ("title: A", "title: [A", r"tiny\.yml:\d+: not valid YAML"),
        ("org/changed", "../changed", r"tiny\.yml:11: .*'\.\./changed'"),
        ("path: docs.json", "path: docs.json\n  too_long: cut", r"tiny\.yml:6: .*'cut'"),
        (
            "path: docs.json",
            "path: docs.json\n  margin: 8",
            r"tiny\.yml:3: documents.*margin goes with too_long: run",
        ),
        (
            "path: docs.json",
            "path: docs.json\n  room: 8",
            r"tiny\.yml:3: documents.*room goes with too_long: truncate",
        ),
        (
            "licence: MIT",
            "rope: {type: default}",
            r":9: .*rope: type default needs theta and takes",
        ),
        ("licence: MIT", "rope: {type: linear}", r":9: .*rope: type linear needs factor; add it"),
        (
            "licence: MIT",
            "rope: {type: ntk}",
            r":9: models\[0\]\.rope\.type: 'ntk': must be 'default', 'linear'",
        ),
        ("{kind: local,", "{kind: local, pickle: true,", r":10: .*did you mean 'pickled'\?"),
        (GOOD, "", r"tiny\.yml:1: expected keys"),
        (GOOD, "- a\n- b\n", r"tiny\.yml:1: expected keys"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(
    workspace: Workspace, old: str, new: str, message: str
) -> None:
    assert old in GOOD
    with pytest.raises(ProblemFileError, match=message) as caught:
        load_problem(write(workspace, GOOD.replace(old, new, 1)), workspace)
    assert "\n" not in caught.value.format_message()


def test_a_demo_model_must_exist(workspace: Workspace) -> None:
    text = GOOD + "demo: {documents: 1, max_tokens: 64, models: [org/none]}\n"
    with pytest.raises(ProblemFileError, match="'org/none', which is not in models"):
        load_problem(write(workspace, text), workspace)


def test_every_model_on_request_is_no_problem(workspace: Workspace) -> None:
    text = GOOD.replace("family: one", "family: one\n    on_request: true")
    with pytest.raises(ProblemFileError, match="every model is on_request; leave one without it"):
        load_problem(write(workspace, text), workspace)


def test_text_that_is_not_utf8(workspace: Workspace) -> None:
    with pytest.raises(ProblemFileError, match="not UTF-8 at byte 7"):
        load_problem(write(workspace, b"title: \xff"), workspace)


def test_unknown_names_list_what_there_is(workspace: Workspace) -> None:
    problem = load_problem(write(workspace, GOOD), workspace)
    with pytest.raises(ProblemFileError, match=r"--model x: .* org/base, org/changed"):
        problem.model("x")
    with pytest.raises(ProblemFileError, match=r"--probe x: .* full, window_8"):
        problem.probe("x")
    with pytest.raises(ProblemFileError, match="problems here: tiny"):
        load_problem("none", workspace)
    with pytest.raises(ProblemFileError, match="did you mean 'tiny'"):
        load_problem("tinny", workspace)


def test_an_id_with_two_dashes_stays_itself(workspace: Workspace) -> None:
    problem = load_problem(write(workspace, GOOD.replace("org/changed", "org--changed")), workspace)
    spec = problem.models[1]
    assert (spec.full_id, spec.model_id) == ("org--changed", "org--changed")
    assert problem.model("org--changed") is spec
    assert problem.model("org--base") is problem.model("org/base") is problem.models[0]


@pytest.mark.parametrize("name", ["org--base", "Org/Base"])
def test_ids_that_would_share_a_folder_are_refused(workspace: Workspace, name: str) -> None:
    """Some disks ignore case."""
    text = GOOD.replace("org/changed", name)
    with pytest.raises(ProblemFileError, match=f"'org/base' and '{name}' would share .* rename"):
        load_problem(write(workspace, text), workspace)


def test_a_problem_needs_no_target(workspace: Workspace) -> None:
    text = GOOD.replace("target: {kind: file, path: target.json}\n", "")
    problem = load_problem(write(workspace, text), workspace)
    assert problem.target is None
    assert {need.kind for need in problem_needs(problem, workspace)} == {"documents", "models"}


def test_all_mistakes_are_reported_together_unknown_keys_first(workspace: Workspace) -> None:
    text = (
        GOOD.replace("title:", "titel:")
        .replace("kind: json", "kind: jason")
        .replace("licence: MIT", "license: MIT\n    dtype: float8")
        .replace("base: org/base", "base: org/bass")
        .replace("stride: 4", "strid: -4")
        .replace("context: 8", "context: eight")
        .replace("{kind: file, path: target.json}", "{kind: file}")
        + "demo: {documents: 0, max_tokens: 64, models: []}\n"
    )
    with pytest.raises(ProblemFileError) as caught:
        load_problem(write(workspace, text), workspace)
    first, *lines = caught.value.format_message().splitlines()
    path = workspace.problems / "tiny.yml"
    assert first == f"{path}: 10 mistakes"
    assert lines == [
        f"  {path}:{line}"
        for line in (
            "2: titel: unknown key 'titel'; did you mean 'title'?",
            "9: models[0].license: unknown key 'license'; did you mean 'licence'?",
            "15: probes[1].strid: unknown key 'strid'; did you mean 'stride'?",
            "4: documents.kind: kind 'jason' is unknown; did you mean 'json'? The kinds are: "
            "folder, json, sdist",
            "10: models[0].dtype: 'float8': must be 'auto', 'float32', 'bfloat16' or 'float16'; "
            "did you mean 'float32'?",
            "12: models[1].base: 'org/bass' is not a checkpoint of this file; use one of org/base",
            "15: probes[1].context: 'eight': must be a whole number",
            "16: target: key 'path' is missing; add it",
            "17: demo.documents: 0: must be greater than 0",
            "17: demo.models: must have at least 1 entry",
        )
    ]


def test_paths_start_at_the_problem_file_unless_it_ships(workspace: Workspace) -> None:
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
    assert own.place(workspace).resolve(own.documents.path) == folder / "docs.json"
    assert own.asked == str(folder / "tiny.yml")
    assert ships.asked == "tiny"


MENDED_BY_ITS_MESSAGE = [
    ("name: tiny", "name: My Problem", "such as 'my_problem'", "name: my_problem"),
    ("title:", "titel:", "did you mean 'title'?", "title:"),
    ("kind: json", "kind: jsonl", "did you mean 'json'?", "kind: json"),
    ("path: docs.json", "file: docs.json", "use one of: count, expected_tokens", "path: docs.json"),
    ("family: one", "family:", "is empty; give it a value", "family: one"),
    ("full_id: org/base", "full_id: org/my base", "such as 'org/my-base'", "full_id: org/base"),
    ("base: org/base", "base: base", "use one of org/base", "base: org/base"),
    (
        "[{kind: rope, theta: 5000}]",
        "{kind: rope, theta: 5000}",
        "must be a list: its entries in [ ]",
        "[{kind: rope, theta: 5000}]",
    ),
    ("context: 8", "context: 8k", "'8k': must be a whole number", "context: 8"),
    ("  kind: json", "\tkind: json", "use spaces, not tabs", "  kind: json"),
]
"""The original text, the mistake, the remedy in the message, the corrected text."""


@pytest.mark.parametrize(("right", "wrong", "says", "mended"), MENDED_BY_ITS_MESSAGE)
def test_the_message_of_a_common_mistake_corrects_it(
    workspace: Workspace, right: str, wrong: str, says: str, mended: str
) -> None:
    assert right in GOOD
    text = GOOD.replace(right, wrong, 1)
    with pytest.raises(ProblemFileError) as caught:
        load_problem(write(workspace, text), workspace)
    assert says in caught.value.format_message()
    load_problem(write(workspace, text.replace(wrong, mended, 1)), workspace)
