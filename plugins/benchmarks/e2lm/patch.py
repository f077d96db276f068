"""Create the patch that adds a task to a clone of lm-evaluation-harness."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from plugins.benchmarks.refusal import refused
from warehouse.child_process import inherited
from warehouse.errors import TokenmartError, first_line
from warehouse.files import read_text

TASKS = Path("lm_eval/tasks")
LARGEST_TASK = 32_000_000
"""Maximum size of a task's folder in bytes: ten times the size of 15,000 short questions."""

# independent of a user's or a clone's git configuration: prefixes, colours, context, length of ids
_DIFF = (
    "diff", "--binary", "--full-index", "--unified=3", "--no-renames", "--no-color",
    "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip
_APPLY = ("apply", "--whitespace=nowarn")
_CLONE = ("clone", "--quiet", "--shared", "--no-checkout", "--config", "core.autocrlf=false")

_LEFT_OUT = ("__pycache__", ".git", ".DS_Store", ".ipynb_checkpoints")
_SECRETS = {
    "a Hugging Face token": r"\bhf_[A-Za-z0-9]{20,}",
    "a GitHub token": r"\bgh[pousr]_[A-Za-z0-9]{30,}",
    "an AWS access key": r"\bAKIA[0-9A-Z]{16}\b",
    "an API key": r"\bsk-[A-Za-z0-9_-]{20,}",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "a secret": r"(?i)\b\w*(?:api_?key|secret|access_?token|auth_?token|password)\w*[\"']?"
    r"\s*[:=]\s*[\"']?[A-Za-z0-9/+_-]{16,}",
}


@dataclass(frozen=True)
class Patch:
    """A patch, and notes on it.

    text: input of `git apply`. files: the changed paths. base: the base commit.
    left_out: untracked files of the clone that are not in the patch.
    """

    text: bytes
    files: tuple[str, ...]
    base: str
    left_out: tuple[str, ...]


def git(folder: Path, *arguments: str, given: bytes | None = None) -> bytes:
    """Output of a git command; hooks don't run.

    Raises:
        TokenmartError: the command fails (with its first line), or git is missing.
    """
    try:
        done = subprocess.run(
            ["git", "-c", "core.hooksPath=/dev/null", "-C", str(folder), *arguments],
            input=given,
            capture_output=True,
            check=False,
            # a clone is named by its folder, not by what a hook or an alias has set
            env=inherited("GIT_"),
        )
    except FileNotFoundError as error:
        raise refused("git", "not installed; install it", "no-git") from error
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise refused(folder, f"git {arguments[0]} failed ({lines[0]})", "git-failed")
    return done.stdout


def find_base(harness: Path) -> str:
    """The commit that a clone of the harness is at.

    Raises:
        TokenmartError: the folder is not a clone of the harness.
    """
    if not (harness / TASKS).is_dir() or not (harness / ".git").exists():
        what = f"no clone of lm-evaluation-harness (no .git, or no {TASKS} in it)"
        raise refused(harness, what, "no-clone")
    return git(harness, "rev-parse", "--verify", "HEAD^{commit}").decode().strip()


def task_files(task: Path) -> list[Path]:
    """The files of a task's folder, without caches.

    Raises:
        TokenmartError: the folder is missing, empty or too large, or contains something other than
            plain files.
    """
    if not task.is_dir():
        raise refused(task, "no such folder; `tokenmart e2lm new` writes one", "no-folder")
    paths = []
    for path in sorted(task.rglob("*")):
        if any(part in _LEFT_OUT for part in path.relative_to(task).parts):
            continue
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise refused(path, "no plain file, and a patch can't contain it", "no-plain-file")
        if path.is_file():
            paths.append(path)
    if not paths:
        raise refused(task, "contains no file; put the task's YAML there", "no-folder")
    total = sum(path.stat().st_size for path in paths)
    if total > LARGEST_TASK:
        what = f"{total / 1e6:,.0f} MB; a patch may have {LARGEST_TASK / 1e6:.0f} MB"
        raise refused(task, what, "too-large")
    return paths


class _AnyTag(yaml.SafeLoader):
    """YAML loader that reads `!function utils.load` and other tags of the harness as text."""


_AnyTag.add_multi_constructor("!", lambda loader, suffix, node: f"!{suffix} {node.value}")


def task_names(task: Path) -> list[str]:
    """The tasks and groups that the YAML files of a folder define.

    Raises:
        TokenmartError: a file is not YAML.
    """
    names = []
    for path in task_files(task):
        if path.suffix not in (".yaml", ".yml"):
            continue
        try:
            tree = yaml.load(read_text(path), Loader=_AnyTag)
        # ValueError: a date such as 2026-02-30
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            where = f"{path}:{mark.line + 1}" if mark else path
            raise refused(where, f"not YAML ({first_line(error)})", "no-yaml") from error
        if isinstance(tree, dict):
            defined = tree.get("group") or tree.get("task")
            names += [defined] if isinstance(defined, str) else []
    return sorted(set(names))


def make_patch(task: Path, harness: Path, base: str, scratch: Path) -> Patch:
    """The difference between a commit of the harness and the clone with the task.

    It includes changes to tracked files of the clone, but no untracked files outside the task.

    Args:
        task: the task's folder, in the clone or elsewhere.
        harness: the clone.
        base: the commit that the patch starts from.
        scratch: an empty folder.

    Raises:
        TokenmartError: the base has other files in the task's place, or git fails.
    """
    inside = task.resolve().is_relative_to(harness.resolve())
    place = task.resolve().relative_to(harness.resolve()) if inside else TASKS / task.resolve().name
    listed = git(harness, "ls-tree", "-r", "--name-only", base, "--", f"{place}/")
    if not inside and listed:
        what = f"has {place} already; rename the folder {task.name}, or name that one"
        raise refused(harness, what, "taken")
    changes = git(harness, *_DIFF, base)
    git(scratch, *_CLONE, str(harness.resolve()), "build")
    build = scratch / "build"
    git(build, "read-tree", base)
    if changes:
        git(build, *_APPLY, "--cached", "-", given=changes)
    for path in task_files(task):
        # --no-filters: the file's bytes, without git's conversion of line endings
        written = git(build, "hash-object", "-w", "--no-filters", str(path.resolve()))
        name = (place / path.relative_to(task)).as_posix()
        entry = f"100644,{written.decode().strip()},{name}"
        git(build, "update-index", "--add", "--cacheinfo", entry)
    names = git(build, "diff", "--cached", "--name-only", "-z", base).decode().split("\0")
    untracked = git(harness, "ls-files", "--others", "--exclude-standard", "-z", "--", "lm_eval")
    return Patch(
        text=git(build, *_DIFF, "--cached", base),
        files=tuple(filter(None, names)),
        base=base,
        left_out=tuple(
            name
            for name in filter(None, untracked.decode().split("\0"))
            if not Path(name).is_relative_to(place)
        ),
    )


def apply_cleanly(patch: Patch, harness: Path, scratch: Path) -> Path:
    """A clean clone of the harness at the patch's base, with the patch applied.

    Raises:
        TokenmartError: the patch does not apply.
    """
    git(scratch, *_CLONE, str(harness.resolve()), "clean")
    clean = scratch / "clean"
    git(clean, "checkout", "--quiet", "--detach", patch.base)
    git(clean, *_APPLY, "--index", "-", given=patch.text)
    return clean


def refuse_secrets(patch: Patch, clean: Path, token: str) -> None:
    """Refuse a patch that adds the access token, or a string like one, in any kind of file.

    Args:
        patch: the patch.
        clean: a clone in which it is applied.
        token: the access token.

    Raises:
        TokenmartError: the patch has one; the message has file and line, never the value.
    """
    for name in (name for name in patch.files if (clean / name).is_file()):
        try:
            before = set(git(clean, "show", f"{patch.base}:{name}").split(b"\n"))
        except TokenmartError:  # a new file
            before = set()
        for number, raw in enumerate((clean / name).read_bytes().split(b"\n"), start=1):
            if raw in before:
                continue
            # without the zero bytes of UTF-16
            line = raw.replace(b"\0", b"").decode("utf-8", "replace")
            kinds = [kind for kind, pattern in _SECRETS.items() if re.search(pattern, line)]
            if token in line or kinds:
                what = "the token itself" if token in line else kinds[0]
                raise refused(f"{name}:{number}", f"contains {what}; remove it", "secret")
