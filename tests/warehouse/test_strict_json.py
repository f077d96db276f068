"""The strict JSON reader: what it refuses, and that every message is one line."""

from __future__ import annotations

import hashlib

import pytest

from warehouse.strict_json import StrictJsonError, parse_json, read_json, shown

REFUSED = [
    (b"", "not JSON"),
    (b'\xef\xbb\xbf{"a": 1}', "BOM"),
    ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
    (b'{"a": "\xff"}', "not UTF-8 (byte 7)"),
    (b'{"a": 1', "not JSON"),
    (b'{"a": 1,}', "not JSON"),
    (b"{'a': 1}", "not JSON"),
    (b'{"a": 1} x', "not JSON: Extra data"),
    (b'{"a": 1, "a": 2}', 'the key "a" twice'),
    (b'{"x": [{"a": 1, "a": 1}]}', 'the key "a" twice'),
    (b'{"\\u0061": 1, "a": 2}', 'the key "a" twice'),
    (b'{"a": ' + b"9" * 5000 + b"}", "digits"),
    (b"[" * 2_000_000, "nested too deeply"),
    (b'{"a":' * 100_000, "nested too deeply"),
]


@pytest.mark.parametrize(("data", "words"), REFUSED)
def test_refused_with_one_line(data, words):
    with pytest.raises(StrictJsonError) as refusal:
        parse_json(data)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_numbers_without_a_limit_are_left_to_the_reader():
    assert parse_json(b"[1e999, -Infinity]") == [float("inf"), -float("inf")]


def test_brackets_inside_strings_are_not_depth():
    text = b'{"' + b"[{" * 100 + b'": "\\"[[[' + b"[" * 100 + b'"}'
    assert len(parse_json(text)) == 1


def test_the_hash_is_of_the_bytes_parsed(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b'{"a": 1}\n')
    file = read_json(path, 100)
    assert file.content == {"a": 1}
    assert file.sha256 == hashlib.sha256(b'{"a": 1}\n').hexdigest()


def test_size_limit_and_odd_paths(tmp_path):
    path = tmp_path / "big.json"
    path.write_bytes(b"[" + b"1," * 100 + b"1]")
    with pytest.raises(StrictJsonError, match="larger than 100 bytes"):
        read_json(path, 100)
    with pytest.raises(StrictJsonError, match="not a regular file"):
        read_json(tmp_path, 100)
    with pytest.raises(StrictJsonError, match="does not exist"):
        read_json(tmp_path / "no.json", 100)


def test_shown_is_ascii_on_one_line_and_short():
    text = shown("é\n" * 100)
    assert "\n" not in text and len(text) <= 60 and text[:7] == '"\\u00e9'
