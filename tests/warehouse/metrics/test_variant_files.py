"""A mistake in a variants file is one line that names file, line, variant and column."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from dbt_harness import PROJECT

from tokenmart import cli
from warehouse.errors import TokenmartError
from warehouse.metrics.registry import Family, find_families
from warehouse.metrics.variant_files import SETTINGS, check_variants
from warehouse.paths import Workspace

GAIN = Family(
    "gain",
    "custom",
    "higher",
    True,
    "window",
    None,
    {
        "statistic": {"mean": (), "share_above": ("alpha",)},
        "from_position": "optional",
        "tail_tokens": "required",
    },
)
HEADER = "metric,variant,aggregation,statistic,alpha,from_position,tail_tokens"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    settings = tmp_path / SETTINGS
    settings.parent.mkdir(parents=True)
    shutil.copy(PROJECT / SETTINGS, settings)
    (tmp_path / "variants").mkdir()
    return tmp_path


def check(project: Path, text: str, name: str = "gain") -> None:
    path = project / "variants" / f"{name}.csv"
    path.write_text(text, encoding="utf-8", newline="")
    check_variants(project, [GAIN])


def test_what_ships_and_a_good_file_pass(project: Path) -> None:
    check_variants(PROJECT, find_families(PROJECT))
    check(project, f"{HEADER}\r\ngain,a,micro,mean,,,5\n\ngain,b,macro,share_above,0.5,0,5\r\n")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("gain,b,micro,mean,,5", "line 3: 6 values for 7 columns: gain,b,micro,mean,,5; "),
        ("gain,b,micro,mean,,,5,9", "line 3: 8 values for 7 columns"),
        (
            "gain,b,micro,share_abov,,,5",
            "line 3: column statistic of b is 'share_abov'; did you mean 'share_above'? write one",
        ),
        ("gain,b,mikro,mean,,,5", "line 3: column aggregation of b is 'mikro'; did you mean 'mic"),
        ("gain,b,,mean,,,5", "line 3: column aggregation of b is empty; write micro, macro, wei"),
        ("gain,b,micro,share_above,,,5", "line 3: column alpha of b is empty; write a number"),
        ("gain,b,micro,mean,,,", "line 3: column tail_tokens of b is empty; write a whole number"),
        ("gain,b,micro,mean,2,,5", "column alpha of b is '2', but a row like this doesn't read it"),
        ("gain,b,micro,mean,,x,5", "column from_position of b is 'x'; write a whole number"),
        ("gain,b,micro,mean,,-1,5", "of b is '-1'; write a whole number, at least 0"),
        ("gain,b,micro,share_above,nan,,5", "column alpha of b is 'nan'; write a number"),
        ("pain,b,micro,mean,,,5", "column metric of b is 'pain'; write gain, as the file's name"),
        ("gain,b@c,micro,mean,,,5", "column variant of b@c has a space, a quote or @ in it"),
        ("gain,a,micro,mean,,,5", "line 3: the variant a stands in line 2 already; rename one"),
    ],
)
def test_a_mistake_in_a_row_is_named(project: Path, row: str, said: str) -> None:
    with pytest.raises(TokenmartError) as caught:
        check(project, f"{HEADER}\ngain,a,micro,mean,,,5\n{row}\n")
    assert caught.value.message.startswith(f"{project / 'variants' / 'gain.csv'}, line 3: ")
    assert said in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: no column metric; the first line names the columns, metric,variant,aggre"),
        ("metric,variant,aggregation,alpa\ngain,a,micro,1\n", "column alpa is unknown; did you me"),
        ("metric,variant,aggregation,gamma\ngain,a,micro,2\n", "column gamma is not read by gain"),
        ("metric,variant,variant,aggregation\n", "line 1: column variant stands there twice"),
    ],
)
def test_a_mistake_in_the_columns_is_named(project: Path, text: str, said: str) -> None:
    with pytest.raises(TokenmartError) as caught:
        check(project, text)
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_distances_are_powers_of_two(project: Path) -> None:
    family = Family("far", "custom", "higher", True, "window", None, {"from_distance": "optional"})
    path = project / "variants" / "far.csv"
    header = "metric,variant,aggregation,from_distance\nfar,a,micro,1024\n"
    path.write_text(header, encoding="utf-8")
    check_variants(project, [family])
    path.write_text(header + "far,b,micro,1000\n", encoding="utf-8")
    with pytest.raises(TokenmartError, match="'1000'; write a power of two, for instance 512 or"):
        check_variants(project, [family])


def test_a_file_of_no_family_is_named(project: Path) -> None:
    with pytest.raises(TokenmartError, match=r"gains\.csv: there is no metric family gains; did"):
        check(project, f"{HEADER}\n", name="gains")


def test_nothing_runs_after_a_mistake(workspace: Workspace) -> None:
    shutil.rmtree(workspace.dbt_project)
    ignored = shutil.ignore_patterns("target", "logs")
    shutil.copytree(PROJECT, workspace.dbt_project, ignore=ignored)
    path = workspace.dbt_project / "variants" / "key_share.csv"
    with path.open("a", encoding="utf-8") as file:
        file.write("key_share,b,,micro,sharp,1,-2\n")
    stopped = CliRunner().invoke(cli, ["dbt", "run"])
    assert stopped.exit_code == 1
    (line,) = stopped.stderr.splitlines()
    assert f"{path}, line 38: column statistic of b is 'sharp'; did you mean 'share'?" in line
