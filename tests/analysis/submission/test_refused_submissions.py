"""Submissions that break the contract are refused in one line that names the mistake."""

from __future__ import annotations

import json
import math
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusal import refused

from analysis.submission import verifier as locked

MODELS = list(locked.MODELS)
GOOD = {model: float(index) for index, model in enumerate(MODELS)}


def changed(**changes):
    return {**GOOD, **changes}


def text_of(value):
    return json.dumps(value)


A = MODELS[0]
WITHOUT_A = {m: s for m, s in GOOD.items() if m != A}
ROWS = [{"model": m, "score": s} for m, s in GOOD.items()]

TABLE: list[tuple[str | bytes, str]] = [
    ("", "not JSON"),
    ("nonsense", "not JSON"),
    ("17", "found a number"),
    ("null", "found null"),
    ("true", "found a boolean"),
    ('"x"', "found a string"),
    ("{}", "missing 17 of 17"),
    ("[]", "missing 17 of 17"),
    (text_of(WITHOUT_A), f"missing 1 of 17 models: {A}"),
    (text_of(changed(extra=1)), 'not in the model set: "extra"'),
    (text_of({**WITHOUT_A, A.lower(): 1}), f"did you mean {A}?"),
    (text_of({**WITHOUT_A, A + " ": 1}), f"did you mean {A}?"),
    (text_of({"scores": GOOD}), 'not in the model set: "scores"'),
    (text_of({A + "\n\ud800": 1}), "\\n\\ud800"),
    (text_of(GOOD)[:-1] + f', "{A}": 1}}', "twice"),
    (text_of(GOOD)[:-1] + ', "01-ai\\/Yi-6B-200K": 1}', "twice"),
    (text_of(ROWS + ROWS[:1]), "row 17 repeats"),
    (text_of([*ROWS, 3]), "row 17 must be an object"),
    (text_of([*ROWS, None]), "row 17 must be an object, found null"),
    (text_of([*ROWS[1:], {"score": 1}]), 'row 16 has no "model" field'),
    (text_of([*ROWS[1:], {"model": A}]), 'no "score" field'),
    (text_of([*ROWS[1:], {"model": A, "Score": 1}]), 'it has "model", "Score"'),
    (text_of([*ROWS[1:], {"model": 3, "score": 1}]), "must be a string"),
    (text_of([*ROWS[1:], {}]), "no fields"),
    (text_of(ROWS[1:]), f"missing 1 of 17 models: {A}"),
    (text_of(dict.fromkeys(MODELS, 2.5)), "every model has the score 2.5"),
    (text_of(dict.fromkeys(MODELS, 0) | {A: -0.0}), "every model has the score"),
    (b"\xef\xbb\xbf" + text_of(GOOD).encode(), "BOM"),
    (text_of(GOOD).encode("utf-16"), "not UTF-8"),
    (text_of(GOOD).encode("utf-16-le"), ""),
    (text_of(GOOD).encode("utf-32-be"), ""),
    (b'{"\xe9": 1}', "not UTF-8"),
    (b"\x80\x04\x95", "not UTF-8"),
    (b"PK\x03\x04", "not JSON"),
    (b"\x00" * 100, "not JSON"),
    ("[" * 100_000, "nested too deeply"),
    ('{"a":' * 50_000 + "1" + "}" * 50_000, "nested too deeply"),
    (b" " * (4 << 20) + b"1", "larger than"),
    (text_of(GOOD).replace(": 0.0", ": .5"), "not JSON"),
    (text_of(GOOD).replace(": 0.0", ": 01"), "not JSON"),
    (text_of(GOOD).replace(": 0.0", ": 0x1"), "not JSON"),
    (text_of(GOOD).replace(": 0.0", ": 1_000"), "not JSON"),
    (text_of(GOOD).replace(": 0.0", ": +1"), "not JSON"),
    (text_of(GOOD).replace(": 0.0", ": nan"), "not JSON"),
    (text_of(GOOD).replace(": 0.0", ": 1e400"), "Infinity"),
    (text_of(GOOD).replace(": 0.0", ": " + "9" * 309), "finite"),
    (text_of(GOOD).replace(": 0.0", ": " + "9" * 4500), "digits"),
    (text_of(GOOD) + text_of(GOOD), "Extra data"),
    ("\n".join(map(text_of, ROWS)), "Extra data"),
    (text_of(GOOD) + " // done", "Extra data"),
    ("model,score\n" + "\n".join(f"{m},{s}" for m, s in GOOD.items()), "not JSON"),
]
WRONG_VALUES = [
    (math.nan, "NaN"),
    (math.inf, "Infinity"),
    (-math.inf, "-Infinity"),
    (True, "a boolean"),
    (False, "a boolean"),
    ("0.5", "a string"),
    ("", "a string"),
    (None, "null"),
    ([], "a list"),
    ([0.5], "a list"),
    ({}, "an object"),
    ({"score": 0.5}, "an object"),
]
for model in (MODELS[0], MODELS[8], MODELS[16]):
    for value, words in WRONG_VALUES:
        TABLE.append((text_of({**GOOD, model: value}), words))
        rows = [{"model": m, "score": value if m == model else s} for m, s in GOOD.items()]
        TABLE.append((text_of(rows), words))
for model in MODELS:
    TABLE.append((text_of({m: s for m, s in GOOD.items() if m != model}), model))
    renamed = {m.upper() if m == model else m: s for m, s in GOOD.items()}
    TABLE.append((text_of(renamed), model))


@pytest.mark.parametrize(("content", "words"), TABLE, ids=range(len(TABLE)))
def test_malformed_submissions_are_refused(run, tmp_path, content, words):
    path = tmp_path / "submission.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    out = tmp_path / "out.json"
    line = refused(run("--submission", path, "--out", out))
    assert words in line
    assert not out.exists()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_the_model_without_a_finite_score_is_named(run, write_json, value):
    rows = [{"model": m, "score": value if m == MODELS[8] else s} for m, s in GOOD.items()]
    for content in ({**GOOD, MODELS[8]: value}, rows):
        assert MODELS[8] in refused(run("--submission", write_json(content)))


def test_a_submission_is_checked_before_the_target_is_here(run, target, write_json):
    target.unlink()
    assert MODELS[8] in refused(run("--submission", write_json({**GOOD, MODELS[8]: None})))
    refused(run("--submission", write_json(GOOD)), code=3)


JUNK = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


def is_number(value):
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


@st.composite
def malformed(draw):
    """A submission with one or more defects: junk, cut short, a bad value, a bad model set."""
    shape = draw(st.sampled_from(["junk", "cut", "value", "models", "rows", "bytes"]))
    if shape == "junk":
        return text_of(draw(JUNK)).encode()
    if shape == "bytes":
        return draw(st.binary(max_size=200))
    good = text_of(GOOD).encode()
    if shape == "cut":
        return good[: draw(st.integers(0, len(good) - 1))]
    if shape == "value":
        bad = draw(JUNK.filter(lambda value: not is_number(value)))
        return text_of({**GOOD, draw(st.sampled_from(MODELS)): bad}).encode()
    if shape == "models":
        kept = draw(st.lists(st.sampled_from(MODELS), unique=True, max_size=16))
        more = draw(st.dictionaries(st.text(max_size=30), st.floats(-5, 5), max_size=3))
        return text_of({m: GOOD[m] for m in kept} | more).encode()
    row = draw(JUNK.filter(lambda value: not (isinstance(value, dict) and "model" in value)))
    place = draw(st.integers(0, 17))
    return text_of([*ROWS[:place], row, *ROWS[place:]]).encode()


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(content=malformed())
def test_generated_malformed_submissions_are_refused(run, tmp_path, content):
    path = tmp_path / "generated.json"
    path.write_bytes(content)
    refused(run("--submission", path))


def test_odd_paths_are_refused(run, tmp_path):
    refused(run("--submission", tmp_path))
    refused(run("--submission", tmp_path / "missing.json"))
    refused(run("--submission", tmp_path / "two\nlines.json"))
    refused(run("--submission", "/dev/zero"))
    os.mkfifo(tmp_path / "pipe")
    refused(run("--submission", tmp_path / "pipe"))
