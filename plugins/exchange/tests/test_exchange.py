"""Two labs: one exports, the other attaches, asks SQL over both and ranks the models of both."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from two_labs import MODELS, Lab, Run, asked

from plugins.exchange.bundle import MANIFEST, place_of, read_manifest
from plugins.exchange.export import may_share_texts
from warehouse.errors import TokenmartError
from warehouse.paths import find_workspace
from warehouse.store.ledger import read_units
from warehouse.store.token_files import read_rows, write_units


def test_sql_sees_both_and_ranking_is_that_of_one_warehouse_with_all_models(
    near: Lab, far: Lab, bundle: Path, tell: Run, tmp_path: Path
) -> None:
    said = tell(near, "exchange", "attach", str(bundle), "--name", "lab2").output
    assert "in both, yours count: lab--model-3" in said and "not compared" not in said
    query = "select lab, count(distinct model_id) as models from labs.tokens group by 1 order by 1"
    rows = asked(near, tell, query)
    assert rows == [{"lab": "lab2", "models": 5}, {"lab": "own", "models": 4}]
    query = "select count(*) as n from lab2.units where rows > 0"
    assert asked(near, tell, query) == [{"n": 20}]
    query = "from metric_values union all by name from lab2.metric_values"
    assert len(asked(near, tell, query)) == 2 * (4 + 5)
    together = tell(near, "correlate", "--problem", "synthetic", "--with", "lab2", "--json").stdout
    whole = Lab(tmp_path / "whole", MODELS)
    expected = tell(whole, "correlate", "--problem", "synthetic", "--json").stdout
    found, wanted = (json.loads(text) for text in (together, expected))
    assert found["models"] == wanted["models"] and len(wanted["models"]) == 8
    assert figures(found) == figures(wanted) and figures(wanted)
    alone = tell(near, "correlate", "--problem", "synthetic", "--json").stdout
    assert len(json.loads(alone)["models"]) == 4, "only where it is asked for"
    tell(near, "exchange", "detach", "lab2")
    assert tell(near, "exchange", "attach").output == ""
    done = tell(near, "correlate", "--problem", "synthetic", "--with", "lab2", code=1)
    assert "--with lab2: no such bundle" in done.output


def test_a_bundle_in_a_folder_whose_name_is_a_pattern_is_read_and_no_other(
    near: Lab, bundle: Path, tell: Run, tmp_path: Path
) -> None:
    for name in ("lab[2]", "lab2"):
        shutil.copytree(bundle, tmp_path / name)
    for path in (tmp_path / "lab2").rglob("*.parquet"):
        pq.write_table(pq.read_table(path, partitioning=None).slice(0, 0), path)
    tell(near, "exchange", "attach", str(tmp_path / "lab[2]"), "--name", "lab2")
    for table in ("tokens", "units", "metric_values"):
        assert asked(near, tell, f"select count(*) > 0 as some from lab2.{table}") == [
            {"some": True}
        ]


@pytest.mark.hostile
@pytest.mark.parametrize("name", ["select", "order", "table", "null"])
def test_a_bundle_may_be_called_as_a_word_of_sql(
    near: Lab, bundle: Path, tell: Run, name: str
) -> None:
    tell(near, "exchange", "attach", str(bundle), "--name", name)
    done = tell(near, "sql", "select count(*) as n from tokens")
    assert done.stderr == ""
    query = "select lab, count(distinct model_id) as models from labs.tokens group by 1 order by 1"
    assert {row["lab"]: row["models"] for row in asked(near, tell, query)} == {"own": 4, name: 5}
    query = f'select count(*) > 0 as some from "{name}".metric_values'
    assert asked(near, tell, query) == [{"some": True}]
    ranked = tell(near, "correlate", "--problem", "synthetic", "--with", name, "--json").stdout
    assert len(json.loads(ranked)["models"]) == 8
    tell(near, "exchange", "detach", name)


@pytest.mark.hostile
def test_a_manifest_that_is_a_pipe_is_left_out_without_waiting(
    near: Lab, bundle: Path, tell: Run
) -> None:
    tell(near, "exchange", "attach", str(bundle), "--name", "lab2")
    manifest = bundle / MANIFEST
    manifest.unlink()
    os.mkfifo(manifest)
    said = tell(near, "sql", "select 1 as one").stderr
    assert said == f"warning: lab2: left out, {manifest}: not a file; this is no bundle\n"


def figures(record: dict[str, Any]) -> list[Any]:
    return [(each["metric"], each["variant"], each["spearman"]) for each in record["rows"]]


def test_a_bundle_has_a_card_the_ledger_and_records(bundle: Path, far: Lab) -> None:
    front = yaml.safe_load((bundle / "README.md").read_text().split("---")[1])
    assert front["license"] == "mit" and front["size_categories"] == ["1K<n<10K"]
    for each in front["configs"]:
        assert list(bundle.glob(each["data_files"])) or each["config_name"] in (
            "top_tokens", "condition_pairs", "lineup", "recall_items",
        )  # fmt: skip
    mine = sorted((far.root / "data" / "tokens").rglob("*.parquet"))
    theirs = sorted((bundle / "data" / "tokens").rglob("*.parquet"))
    assert [p.read_bytes() for p in mine] == [p.read_bytes() for p in theirs] and mine
    written = sorted((bundle / "eval_results").rglob("*.json"))
    assert len(written) == 5
    record = json.loads(written[0].read_text())
    assert record["schema_version"] == "0.3.0" and len(record["evaluation_results"]) == 3
    score = record["evaluation_results"][0]
    assert score["score_details"]["uncertainty"]["standard_error"]["value"] == 0.01
    assert {r["metric_config"]["lower_is_better"] for r in record["evaluation_results"]} == {False}


REQUIRED = {
    "": {"schema_version", "evaluation_id", "retrieved_timestamp", "source_metadata", "model_info",
         "eval_library", "evaluation_results"},
    "source_metadata": {"source_type", "source_organization_name", "evaluator_relationship"},
    "eval_library": {"name", "version"},
    "model_info": {"name", "id", "additional_details"},
    "evaluation_results": {"evaluation_name", "source_data", "metric_config", "score_details"},
    "metric_config": {"lower_is_better", "score_type", "min_score", "max_score"},
}  # fmt: skip
"""Keys that eval.schema.json 0.3.0 requires (github.com/evaleval/every_eval_ever, MIT, 9bce413)."""


def test_records_have_every_key_that_the_schema_requires(bundle: Path) -> None:
    for path in (bundle / "eval_results").rglob("*.json"):
        assert uuid.UUID(path.stem).version == 4
        record = json.loads(path.read_text())
        parts = {"": [record], "evaluation_results": record["evaluation_results"]}
        parts |= {name: [record[name]] for name in ("source_metadata", "eval_library")}
        parts["model_info"] = [record["model_info"]]
        parts["metric_config"] = [each["metric_config"] for each in parts["evaluation_results"]]
        for name, keys in REQUIRED.items():
            assert all(keys <= each.keys() for each in parts[name]), name
        details = record["model_info"]["additional_details"]
        assert details["deployment_type"] == "self_deployed"
        assert details["model_availability"] in ("open_weights", "closed_weights", "unknown")
        assert all(isinstance(value, str) for value in details.values())
        for each in parts["evaluation_results"]:
            assert math.isfinite(each["score_details"]["score"])
            assert (
                each["source_data"]["source_type"] == "other"
                and each["source_data"]["dataset_name"]
            )


def test_records_are_those_of_the_published_schema(bundle: Path) -> None:
    package = pytest.importorskip("every_eval_ever", reason="it needs Python 3.12")
    import jsonschema

    path = Path(package.__file__).parent / "schemas" / "eval.schema.json"
    schema = json.loads(path.read_text())
    for record in (bundle / "eval_results").rglob("*.json"):
        jsonschema.validate(json.loads(record.read_text()), schema)


@pytest.mark.parametrize(
    ("licence", "open_"),
    [("MIT", True), ("BSD-3-Clause", True), ("CC-BY-4.0", True), ("CC-BY-NC-4.0", False),
     ("unknown", False), ("Gemma terms of use", False), ("CC-BY-ND-4.0", False)],
)  # fmt: skip
def test_texts_are_shared_only_under_an_open_licence(licence: str, open_: bool) -> None:
    assert may_share_texts(licence) == open_


def test_without_a_licence_there_are_hashes_and_values_and_no_text(
    tmp_path: Path, near: Lab, tell: Run
) -> None:
    closed = Lab(tmp_path / "closed", MODELS[3:], licence="unknown")
    said = tell(closed, "exchange", "export", str(tmp_path / "b"), "--dry-run").output
    assert (
        "hashes and values, no texts (licence: unknown)" in said and not (tmp_path / "b").exists()
    )
    tell(closed, "exchange", "export", str(tmp_path / "b"))
    assert not (tmp_path / "b" / "data" / "tokens").exists()
    (documents,) = (tmp_path / "b" / "data" / "documents").rglob("*.parquet")
    table = pq.read_table(documents, partitioning=None)
    assert (
        set(table["text"].to_pylist()) == {""} and min(map(len, table["sha256"].to_pylist())) == 64
    )
    tell(near, "exchange", "attach", str(tmp_path / "b"), "--name", "closed")
    record = tell(near, "correlate", "--problem", "synthetic", "--with", "closed", "--json").stdout
    assert len(json.loads(record)["models"]) == 8


def test_an_export_that_replaces_another_leaves_nothing_of_it(
    far: Lab, tell: Run, tmp_path: Path
) -> None:
    def files(name: str = "b") -> set[str]:
        top = tmp_path / name
        return {path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file()}

    def listed() -> set[str]:
        return {file.path for file in read_manifest(str(tmp_path / "b"))[0].files}

    export = ("exchange", "export", str(tmp_path / "b"))
    tell(far, *export)
    assert any(path.startswith("data/tokens/") for path in files())
    shutil.copytree(tmp_path / "b", tmp_path / "cut off")
    (tmp_path / "b" / "data" / f".{'0' * 32}.tmp").write_text("of a killed process")
    tell(far, *export, "--texts", "never", "--force", "--organisation", "Another")
    assert files() == listed() | {"manifest.json"}
    assert not any(path.startswith("data/tokens/") for path in files())

    (tmp_path / "cut off" / "manifest.json").unlink()
    before = files("cut off")
    done = tell(far, "exchange", "export", str(tmp_path / "cut off"), "--texts", "never", code=1)
    assert "is not part of this export; delete it" in done.output and files("cut off") == before

    (tmp_path / "b" / "data" / "thesis.tex").write_text("x")
    assert "data/thesis.tex" in tell(far, *export, "--force", code=1).output
    assert files() == listed() | {"manifest.json", "data/thesis.tex"}


@pytest.mark.hostile
def test_an_export_removes_nothing_behind_a_link(far: Lab, tell: Run, tmp_path: Path) -> None:
    tell(far, "exchange", "export", str(tmp_path / "b"))
    shutil.move(tmp_path / "b" / "data", tmp_path / "elsewhere")
    (tmp_path / "b" / "data").symlink_to(tmp_path / "elsewhere")
    done = tell(
        far, "exchange", "export", str(tmp_path / "b"), "--texts", "never", "--force", code=4
    )
    assert "a link, where a bundle has files" in done.output
    assert list((tmp_path / "elsewhere" / "tokens").rglob("*.parquet"))


@pytest.mark.parametrize("what", ["corpus", "condition"])
def test_what_is_not_alike_is_named_and_not_correlated(
    what: str, near: Lab, far: Lab, tell: Run, tmp_path: Path
) -> None:
    if what == "corpus":
        (path,) = (far.root / "data" / "documents").rglob("*.parquet")
        table = pq.read_table(path, partitioning=None)
        names = [hashlib.sha256(f"{n}".encode()).hexdigest() for n in range(table.num_rows)]
        index = table.schema.get_field_index("sha256")
        field = table.schema.field("sha256")
        pq.write_table(table.set_column(index, field, pa.array(names)), path)
    else:
        for path in (far.root / "data" / "tokens").rglob("condition=window_64/*.parquet"):
            units = [replace(u, probe_params='{"stride": 8}') for u in read_units(path)]
            write_units(path, units, [read_rows(path)])
    tell(far, "exchange", "export", str(tmp_path / "b"))
    said = tell(near, "exchange", "attach", str(tmp_path / "b"), "--name", "lab2").output
    assert f"not compared, {what}" in said
    done = tell(near, "correlate", "--problem", "synthetic", "--with", "lab2", code=1)
    assert "not comparable with yours" in done.output and what in done.output


def test_a_metric_computed_otherwise_is_left_out_and_dtypes_are_named(
    near: Lab, far: Lab, tell: Run, tmp_path: Path
) -> None:
    far.change("update metric_catalog set code = 'other' where metric = 'noise'")
    tell(far, "exchange", "export", str(tmp_path / "b"))
    tell(near, "exchange", "attach", str(tmp_path / "b"), "--name", "lab2")
    done = tell(near, "correlate", "--problem", "synthetic", "--with", "lab2", "--json")
    assert "left out, since it is defined differently there: 1 variant" in done.output


def rewrite(bundle: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = bundle / "manifest.json"
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


def entry(found: dict[str, Any], part: str) -> dict[str, Any]:
    return next(file for file in found["files"] if part in file["path"])


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("../../secret.parquet", "names a file where a bundle has none"),
        ("/etc/passwd", "names a file where a bundle has none"),
        ("data/tokens/problem=x/../../../secret/tokens.parquet", "names a file where"),
        ("data/tokens/problem=x/model_id=y/condition=z/evil.parquet", "names a file where"),
        ("data/eval_items/problem=x/condition=y/items.parquet", "names a file where"),
        ("a\nb", "names a file where a bundle has none"),
        ("README.md/", "names a file where a bundle has none"),
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(
    bundle: Path, near: Lab, tell: Run, name: str, line: str
) -> None:
    rewrite(bundle, lambda found: entry(found, "README.md").update(path=name))
    done = tell(near, "exchange", "attach", str(bundle), "--name", "evil", code=1)
    assert line in done.output and not (near.root / "data" / "attached.json").exists()


@pytest.mark.hostile
@pytest.mark.parametrize(
    "how", ["link", "folder link", "truncated", "flipped", "missing", "garbage"]
)
def test_a_damaged_bundle_is_named_and_nothing_is_attached(
    bundle: Path, near: Lab, tell: Run, how: str, tmp_path: Path
) -> None:
    victim = next((bundle / "data" / "tokens").rglob("*.parquet"))
    content = victim.read_bytes()
    place = victim.relative_to(bundle).as_posix()
    if how == "link":
        shutil.move(victim, tmp_path / "elsewhere")
        victim.symlink_to(tmp_path / "elsewhere")
    elif how == "folder link":
        shutil.move(bundle / "data", tmp_path / "elsewhere")
        (bundle / "data").symlink_to(tmp_path / "elsewhere")
    elif how == "missing":
        victim.unlink()
    else:
        broken = {
            "truncated": content[: len(content) // 2],
            "flipped": content[:50] + bytes([content[50] ^ 1]) + content[51:],
            "garbage": b"PAR1" + bytes(100) + b"\xff\xff\xff\x7fPAR1",
        }[how]
        victim.write_bytes(broken)
        if how == "garbage":  # by someone who also writes the manifest
            digest = hashlib.sha256(broken).hexdigest()
            rewrite(
                bundle,
                lambda found: entry(found, place).update(bytes=len(broken), sha256=digest),
            )
    done = tell(near, "exchange", "attach", str(bundle), "--name", "evil", code=4)
    words = {
        "truncated": "bytes, the manifest has",
        "flipped": "another sha256",
        "missing": "missing",
        "garbage": "damaged",
    }.get(how, "a link")
    assert words in done.output
    assert tell(near, "exchange", "attach").output == ""


@pytest.mark.hostile
@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"format": "other"}', "[" * 100_000, '{"format": 1e999}', "\x00"]
)
def test_a_manifest_that_is_none_is_refused(
    tmp_path: Path, near: Lab, tell: Run, content: str
) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "manifest.json").write_text(content)
    done = tell(near, "exchange", "attach", str(tmp_path / "b"), code=1)
    assert "not the manifest of a bundle" in done.output


def test_a_bundle_that_is_gone_or_changed_takes_nothing_else_away(
    near: Lab, bundle: Path, tell: Run
) -> None:
    tell(near, "exchange", "attach", str(bundle), "--name", "lab2")
    rewrite(bundle, lambda found: found["problems"]["synthetic"].update(title="Another"))
    done = tell(near, "sql", "select count(*) as n from labs.tokens", code=1)
    assert "has changed since it was attached" in done.output
    shutil.rmtree(bundle)
    assert "lab2: left out" in tell(near, "sql", "select count(*) from tokens").output
    assert asked(near, tell, "select count(*) > 0 as some from tokens") == [{"some": True}]


def test_an_export_goes_only_where_nothing_is_lost(
    far: Lab, bundle: Path, tell: Run, tmp_path: Path
) -> None:
    before = read_manifest(str(bundle))[0]
    assert "--force" in tell(far, "exchange", "export", str(bundle), code=1).output
    tell(far, "exchange", "export", str(bundle), "--force")
    again = read_manifest(str(bundle))[0]
    records = "eval_results/"
    mine, theirs = (
        [f for f in each.files if not f.path.startswith(records)] for each in (before, again)
    )
    assert mine == theirs
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("x")
    assert "thesis.tex" in tell(far, "exchange", "export", str(tmp_path / "home"), code=1).output
    assert "checkout" in tell(far, "exchange", "export", str(far.root), code=1).output
    assert find_workspace().root == far.root


def test_a_bundle_is_under_no_path_that_names_a_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rank=0" / "lab").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "rank=0")
    for address in ("lab", f"{tmp_path}/rank=0/lab", "s3://bucket/rank=0"):
        with pytest.raises(TokenmartError, match="rank=0 in it would be taken for a partition"):
            place_of(address)


EVERY_EVAL_EVER = os.environ.get("EVERY_EVAL_EVER", "")


@pytest.mark.skipif(not EVERY_EVAL_EVER, reason="set $EVERY_EVAL_EVER to the schema's own command")
def test_the_schemas_own_command_accepts_the_records(bundle: Path, tmp_path: Path) -> None:
    """`every_eval_ever validate` of version 0.3.0; it expects the folder `data`."""
    shutil.copytree(bundle / "eval_results", tmp_path / "data")
    names = sorted(str(p.relative_to(tmp_path)) for p in (tmp_path / "data").rglob("*.json"))
    done = subprocess.run(
        [EVERY_EVAL_EVER, "validate", *names],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and f"{len(names)} passed" in done.stdout, done.stdout


def test_a_name_is_of_one_bundle_until_it_is_detached(
    near: Lab, bundle: Path, tell: Run, tmp_path: Path
) -> None:
    for place in ("a", "b"):
        shutil.copytree(bundle, tmp_path / place / "shared")
    first, second = (str(tmp_path / place / "shared") for place in ("a", "b"))
    assert json.loads(tell(near, "exchange", "attach", "--json").output) == []
    tell(near, "exchange", "attach", first)
    done = tell(near, "exchange", "attach", second, code=1)
    assert f"shared is the name of {first}; give another one with --name" in done.output
    tell(near, "exchange", "attach", first)
    (known,) = json.loads(tell(near, "exchange", "attach", "--json").output)
    assert (known["name"], known["address"]) == ("shared", first)
    tell(near, "exchange", "detach", "shared")
    tell(near, "exchange", "attach", second)
