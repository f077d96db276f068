"""Documents of which a probe scores nothing are named in the plan and in `status`."""

from __future__ import annotations

import json

from click.testing import CliRunner
from tiny_models import PROBES, make_text
from tiny_runs import ok, run

from extract.cli import status

DOCUMENTS = {"kind": "json", "path": "data/corpus.json"}


def test_short_documents_are_named_with_what_they_lack(workspace, tiny_problem):
    path = tiny_problem(probes=PROBES[:2], documents=DOCUMENTS)
    texts = [
        {"id": "long.md", "text": make_text(0)},
        {"id": "essay.md", "text": "the café reads the log"},
    ]
    (workspace.root / "data" / "corpus.json").write_text(json.dumps(texts))
    arguments = ["--problem", str(path)]
    before = " ".join(ok(run(path, "--dry-run")).split())
    assert "essay.md: about 5 tokens, too short for window_24." in before
    assert "long.md" not in before
    assert "too short" not in ok(CliRunner().invoke(status, arguments))
    ok(run(path))
    after = " ".join(ok(CliRunner().invoke(status, arguments)).split())
    assert "essay.md: too short for window_24." in after and "long.md" not in after
    rows = json.loads(ok(CliRunner().invoke(status, [*arguments, "--json"])))
    short = {row["condition"]: list(row["without_rows"]) for row in rows}
    assert short == {"full": [], "window_24": ["1"]}
