"""The planted faults can be planted: each text stands once in its file."""

from __future__ import annotations

import pytest

from tests.mutations.check import ROOT, mutations, planted

LIST = mutations()


@pytest.mark.parametrize("mutation", LIST, ids=[f"{m['file']}-{n}" for n, m in enumerate(LIST)])
def test_mutation_can_be_planted(mutation):
    assert (ROOT / mutation["file"]).read_text("utf-8").count(mutation["was"]) == 1
    assert mutation["was"] != mutation["now"]
    assert all((ROOT / test.partition("::")[0]).exists() for test in mutation["tests"].split())


def test_planted_fault_is_taken_back(tmp_path):
    source = tmp_path / "source.py"
    source.write_text("a < b", "utf-8")
    with planted(tmp_path, {"file": "source.py", "was": "<", "now": "<="}):
        assert source.read_text("utf-8") == "a <= b"
    assert source.read_text("utf-8") == "a < b"
    with pytest.raises(ValueError), planted(tmp_path, {"file": "source.py", "was": ">", "now": ""}):
        pass
