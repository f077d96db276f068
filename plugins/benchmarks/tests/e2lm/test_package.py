"""`tokenmart e2lm new` and `package`, against git repositories and the harness itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from plugins.benchmarks.e2lm.harness_check import check
from plugins.benchmarks.e2lm.leakage import PromptedItem, leaking, stands_in
from plugins.benchmarks.e2lm.new_task import KINDS, new_task
from plugins.benchmarks.e2lm.package import judge
from plugins.benchmarks.e2lm.package import package as write_package
from plugins.benchmarks.e2lm.patch import (
    apply_cleanly,
    find_base,
    git,
    make_patch,
    refuse_secrets,
    task_names,
)
from tokenmart import cli
from warehouse.errors import TokenmartError

TOKEN = "hf_" + "NotARealTokenJustLetters" + "0123"
COMMIT = ("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-q", "-m", "x")


def repository(folder: Path, files: dict[str, str]) -> Path:
    """A git repository with these files committed."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, *COMMIT)
    return folder


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The shape of a clone, without a harness in it."""
    files = {"lm_eval/tasks/other/other.yaml": "task: other\n", "lm_eval/metrics.py": "A = 1\n"}
    return repository(tmp_path / "harness", files)


@pytest.fixture
def task(tmp_path: Path) -> Path:
    new_task("elements", "multiple-choice", tmp_path)
    return tmp_path / "elements"


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return TOKEN


def package(task: Path, harness: Path, out: Path, *more: str) -> Result:
    words = ["--task", str(task), "--harness", str(harness), "--out", str(out), *more]
    return CliRunner().invoke(cli, ["e2lm", "package", *words])


def refused(task: Path, harness: Path, out: Path, **more: Any) -> tuple[str, str]:
    """Code and place of the error of a packaging, which writes no zip."""
    with pytest.raises(TokenmartError) as caught:
        write_package(task, harness, out, lambda step: None, **more)
    assert not out.exists() and TOKEN not in caught.value.message
    return caught.value.code, caught.value.where


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("task: " + "[" * 100_000, ""),
        ("task: a\nday: 2026-02-30\n", ""),
        ("task: a\x00", ""),
        ("task: 'a\n", ":2"),
        ("task: a\n  b: : c\n", ":2"),
    ],
)
def test_hostile_yaml_has_a_place(task, text, line):
    (task / "two.yaml").write_text(text)
    with pytest.raises(TokenmartError) as caught:
        task_names(task)
    assert (caught.value.code, caught.value.where) == ("no-yaml", f"{task / 'two.yaml'}{line}")


def test_a_byte_order_mark_before_yaml_is_left_out(task):
    (task / "two.yaml").write_bytes(b"\xef\xbb\xbftask: two\n")
    assert task_names(task) == ["elements", "two"]


def test_a_folder_that_no_patch_can_carry_is_refused_before_it_is_read(clone, task, tmp_path):
    with (task / "cache.bin").open("wb") as file:
        file.truncate(60_000_000)
    with pytest.raises(TokenmartError) as caught:
        make_patch(task, clone, find_base(clone), tmp_path)
    assert (caught.value.code, caught.value.where) == ("too-large", str(task))


def test_a_patch_adds_the_task_and_the_changes_of_the_clone(clone, task, tmp_path):
    (clone / "lm_eval/metrics.py").write_text("A = 2\n")
    (clone / "lm_eval/notes.py").write_text("mine\n")
    (task / "__pycache__").mkdir()
    (task / "__pycache__/x.pyc").write_bytes(b"\0")
    (task / "figure.bin").write_bytes(bytes(range(256)))
    patch = make_patch(task, clone, find_base(clone), tmp_path)
    names = ["elements.yaml", "elements_items.py", "figure.bin", "items.jsonl"]
    assert list(patch.files) == [
        "lm_eval/metrics.py",
        *(f"lm_eval/tasks/elements/{name}" for name in names),
    ]
    assert patch.left_out == ("lm_eval/notes.py",)
    clean = apply_cleanly(patch, clone, tmp_path)
    assert (clean / "lm_eval/metrics.py").read_text() == "A = 2\n"
    for name in names:
        made = clean / "lm_eval/tasks/elements" / name
        assert made.read_bytes() == (task / name).read_bytes()
    assert git(clone, "status", "--porcelain").decode().split() == [
        "M", "lm_eval/metrics.py", "??", "lm_eval/notes.py",
    ]  # fmt: skip


def test_a_patch_does_not_depend_on_git_settings(clone, task, tmp_path, monkeypatch):
    (clone / "lm_eval/metrics.py").write_text("A = 2  \n")
    base = find_base(clone)
    patches = []
    for name in ("plain", "told"):
        home = tmp_path / name
        (home / "scratch").mkdir(parents=True)
        monkeypatch.setenv("HOME", str(home))
        if name == "told":
            (home / ".gitconfig").write_text(
                "[diff]\nnoprefix = true\ncontext = 0\n[color]\nui = always\ndiff = always\n"
                "[apply]\nwhitespace = error\n[core]\nautocrlf = true\nabbrev = 6\n"
            )
        patch = make_patch(task, clone, base, home / "scratch")
        apply_cleanly(patch, clone, home / "scratch")
        patches.append(patch)
    assert patches[0] == patches[1] and b"+++ b/lm_eval/metrics.py" in patches[0].text


def test_a_task_inside_the_clone_is_not_moved(clone, tmp_path):
    new_task("elements", "cloze", clone / "lm_eval/tasks/group")
    patch = make_patch(clone / "lm_eval/tasks/group/elements", clone, find_base(clone), tmp_path)
    assert {Path(name).parent.as_posix() for name in patch.files} == {
        "lm_eval/tasks/group/elements"
    }
    assert patch.left_out == ()


@pytest.mark.parametrize(
    "line",
    [
        f"x = '{TOKEN}'",
        "x = 'hf_abcdefghijklmnopqrstuvwx'",
        "OPENAI_API_KEY=abcdefghijklmnop1234",
        "-----BEGIN RSA PRIVATE KEY-----",
        "AKIAABCDEFGHIJKLMNOP",
    ],
)
def test_no_secret_leaves(clone, task, tmp_path, token, line):
    (task / "extra.py").write_text(f"# first\n{line}\n")
    found = refused(task, clone, tmp_path / "s.zip")
    assert found == ("secret", "lm_eval/tasks/elements/extra.py:2")


@pytest.mark.parametrize(
    "content",
    [
        b"\x00\xff\x00" + TOKEN.encode(),
        b"# first\n++ " + TOKEN.encode() + b"\n",
        b"# first\n@@ -1 +1 @@\n++ b/x " + TOKEN.encode() + b"\n",
        b"# first\x0c" + TOKEN.encode() + b"\x0c\n",
        f"first\nx = {TOKEN}\n".encode("utf-16"),
    ],
    ids=["binary", "like a header", "like a hunk", "form feed", "utf-16"],
)
def test_no_token_leaves_in_a_file_of_any_form(clone, task, tmp_path, token, content):
    (task / "extra.bin").write_bytes(content)
    patch = make_patch(task, clone, find_base(clone), tmp_path)
    with pytest.raises(TokenmartError) as caught:
        refuse_secrets(patch, apply_cleanly(patch, clone, tmp_path), token)
    assert caught.value.code == "secret"
    assert caught.value.where.startswith("lm_eval/tasks/elements/extra.bin:")
    assert token not in caught.value.message


def test_a_secret_that_the_harness_has_already_is_not_the_patch_s(clone, task, tmp_path, token):
    (clone / "lm_eval/api.py").write_text(f"a = 1\nb = '{token}'\n")
    git(clone, "add", "-A")
    git(clone, *COMMIT)
    (clone / "lm_eval/api.py").write_text(f"a = 2\nb = '{token}'\n")
    patch = make_patch(task, clone, find_base(clone), tmp_path)
    refuse_secrets(patch, apply_cleanly(patch, clone, tmp_path), token)


def test_broken_folders_and_clones(clone, task, tmp_path, monkeypatch):
    out = tmp_path / "s.zip"
    monkeypatch.delenv("HF_TOKEN", raising=False)
    assert refused(task, clone, out) == ("no-token", "$HF_TOKEN")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert refused(tmp_path / "none", clone, out) == ("no-folder", str(tmp_path / "none"))
    empty = repository(tmp_path / "plain", {"a.txt": "a"})
    assert refused(task, empty, out) == ("no-clone", str(empty))
    (task / "elements.yaml").write_text("task: a\nx: !function y.z\n")
    (task / "second.yaml").write_text("task: b\n")
    assert task_names(task) == ["a", "b"]
    assert refused(task, clone, out) == ("several-tasks", str(task))
    (task / "second.yaml").unlink()
    (task / "link").symlink_to("/etc/hosts")
    assert refused(task, clone, out) == ("no-plain-file", str(task / "link"))
    taken = tmp_path / "elsewhere" / "other"
    new_task("other", "cloze", taken.parent)
    assert refused(taken, clone, out) == ("taken", str(clone))


def test_names_of_tasks(tmp_path):
    for name in ("../x", "A", "a-b", "", "1a"):
        with pytest.raises(TokenmartError) as caught:
            new_task(name, "cloze", tmp_path)
        assert caught.value.code == "task-name"
    new_task("mine", "cloze", tmp_path)
    with pytest.raises(TokenmartError) as caught:
        new_task("mine", "cloze", tmp_path)
    assert caught.value.code == "there-already"


@pytest.mark.parametrize(
    ("answer", "prompt", "found"),
    [
        ("東京", "日本の首都は東京です。", True),
        ("「東京」", "東京", True),
        ("京都", "日本の首都は東京です。", False),
        ("北京", "中国的首都是北京吗？", True),
        ("caf\u00e9", "the cafe\u0301 is open", True),
        ("caf", "the cafe\u0301 is open", False),
        ("서울", "서울은 수도이다", False),  # Korean has spaces: `서울은` is another word
        ("tin", "They continue.", False),
        (" Tin.", "Is it tin?", True),
        ("New York", "In new  york, who", True),
        ("...", "a ... b", False),
        ("C++", "Is C++ hard?", True),
    ],
)
def test_a_leak_is_whole_words(answer, prompt, found):
    assert stands_in(answer, prompt) == found


def test_a_prompt_that_lists_all_choices_is_no_leak():
    listed = PromptedItem("A sheep or a goat?", ("goat",), ("sheep", "goat"))
    given = PromptedItem("The goat is a", ("goat",), ("sheep", "goat"))
    assert leaking([listed, given, PromptedItem(None, ("goat",)), listed]) == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_items_of_a_new_task(tmp_path, kind):
    files = new_task("elements", kind, tmp_path)
    rows = [json.loads(line) for line in files[-1].read_text().splitlines()]
    assert len(rows) == 118 == len({row["question"] for row in rows})
    answers = [row["choices"][row["gold"]] if "gold" in row else row["answer"] for row in rows]
    assert len(set(answers)) == 118
    assert all(len(set(row.get("choices", "abcd"))) == 4 for row in rows)
    assert (
        leaking([PromptedItem(r["question"], (a,)) for r, a in zip(rows, answers, strict=True)])
        == []
    )


@pytest.mark.parametrize("kind", KINDS)
def test_worked_examples_of_a_new_task(tmp_path, kind):
    """No example is an item, and prompts have the first ones."""
    pytest.importorskip("lm_eval")
    from plugins.benchmarks.harness.tasks import load_tasks_and_groups

    *_, worked, items = new_task("first", kind, tmp_path, 2)
    rows = [[json.loads(line) for line in file.read_text().splitlines()]
            for file in (worked, items)]  # fmt: skip
    assert [len(each) for each in rows] == [18, 100]
    questions = [[row["question"] for row in each] for each in rows]
    assert not set(questions[0]) & set(questions[1])
    ((task,), _) = load_tasks_and_groups(["first"], [tmp_path / "first"], limit=3)
    assert task.condition == "first-2shot-first3"
    for request in (request for unit in task.units for request in unit.requests):
        first, second, question = request.arguments[0].split("\n\n")
        for example, row in zip((first, second), rows[0], strict=False):
            answer = row["choices"][row["gold"]] if "gold" in row else row["answer"]
            assert example == f"{row['question']} {answer}"
        assert question in questions[1]


def ran(count: int = 100, **results: Any) -> dict[str, Any]:
    item = {"prompt": "Which one?", "answers": ["this"], "choices": ["this", "that"]}
    return {"items": [item] * count, "results": results or {"acc,none": 0.5, "acc_stderr,none": 0}}


@pytest.mark.parametrize(
    ("found", "metric", "code"),
    [
        (ran(99), None, "number-of-samples"),
        (ran(15_001), None, "number-of-samples"),
        (ran(), "ac", "unknown-metric"),
        (ran(**{"acc,none": float("nan")}), None, "no-number"),
        (ran(**{"acc,none": "N/A"}), None, "no-number"),
        (ran(**{"acc_stderr,none": 0.1}), None, "no-metric"),
    ],
)
def test_what_ran_and_is_no_submission(found, metric, code):
    with pytest.raises(TokenmartError) as caught:
        judge("t", metric, found)
    assert caught.value.code == code


def test_a_leak_is_refused():
    found = ran()
    leak = {"prompt": "Take this one:", "answers": ["this"], "choices": ["this", "that"]}
    found["items"][3] = leak
    with pytest.raises(TokenmartError) as caught:
        judge("t", None, found)
    assert caught.value.code == "leaks"
    assert judge("t", None, ran())[0] == "acc"


def test_without_a_harness_the_check_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    found = check("any", 1)
    assert found["failed"] == "import" and "lm_eval" in found["error"]
