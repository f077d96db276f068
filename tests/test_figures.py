"""Figures in docs and benchmarks/RESULTS.md are those of committed files that a command wrote.

A whole table or sentence that a script writes is compared with the page; of other sentences only
their figures are.
"""

from __future__ import annotations

import importlib
import itertools
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from made_up_marts import Marts

from tokenmart import cli

ROOT = Path(__file__).parents[1]
RESULTS, QUICKSTART = "benchmarks/RESULTS.md", "docs/quickstart.md"
MERGING, SIGNAL = (
    "docs/tutorials/ranking_merged_models.md",
    "docs/explanation/signal_of_benchmarks.md",
)


def of_benchmarks(name: str) -> Any:
    """A fixture: a module of the folder `benchmarks`, which is no package."""

    @pytest.fixture(name=name)
    def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module(name)
        sys.modules.pop(name)

    return module


demo_figures = of_benchmarks("demo_figures")
inference_simulation = of_benchmarks("inference_simulation")
curate_series = of_benchmarks("curate_series")
growth = of_benchmarks("growth")
minimerge = of_benchmarks("minimerge")
eval_harness = of_benchmarks("eval_harness")
gpu_results = of_benchmarks("gpu_results")
gpu_hours = of_benchmarks("gpu_hours")


def committed(name: str) -> Any:
    return json.loads((ROOT / name).read_text("utf-8"))


def shows(page: str, *written: str) -> bool:
    """Whether a page has these lines as they are."""
    text = (ROOT / page).read_text("utf-8")
    return all(each in text for each in written)


def lacking(page: str, figures: Iterable[str]) -> list[str]:
    """The figures, each with a word beside it, that a page doesn't have."""
    text = " ".join((ROOT / page).read_text("utf-8").split())
    return [each for each in figures if each not in text]


def test_choosing_items(curate_series: Any) -> None:
    record = committed("benchmarks/curate_series.json")
    assert shows(SIGNAL, *curate_series.docs_tables(record), record["command"])
    found = record["scoring_methods"]
    groups = {
        method: {row["group"]: row for row in of["by_subject"]} for method, of in found.items()
    }
    figures = [
        f"{record['training_tokens'] / 1e6:.2f} million tokens",
        f"{record['checkpoints']} checkpoints",
        f"{record['items']} items",
        f"in {sum(record['minutes'].values()):.0f} minutes",
        *(f"{run['parameters'] / 1e6:.1f}" for run in record["runs"].values()),
        *(f"{groups[m][g]['share_chosen']:.0%}" for m in ("acc", "acc_norm")
          for g in ("sound", "mislabelled")),
        f"{groups['acc']['sound']['score']:.2f} of 1",
        f"an SQ of {found['correct_loglik']['held_out']['sq']['all']:.2f}",
        *(f"{groups['correct_loglik'][g]['rise']:.1f}" for g in ("sound", "mislabelled")),
    ]  # fmt: skip
    assert lacking(SIGNAL, figures) == []
    assert record["items"] == 4 * record["mislabelled"]
    for method in ("acc", "acc_norm", "norm_correct_prob"):
        sq = found[method]["held_out"]["sq"]
        assert sq["chosen"] - sq["all"] > 1.5 * (sq["random"] - sq["all"]) > 0
    sq = found["acc"]["held_out"]["sq"]
    assert sq["optimism"] / (sq["in_sample"] - sq["all"]) == pytest.approx(0.5, abs=0.1)


def test_the_demo(demo_figures: Any) -> None:
    figures = committed("docs/demo_figures.json")
    block, times = demo_figures.page_block(figures), demo_figures.times_text(figures["seconds"])
    assert shows(QUICKSTART, block, times, figures["command"])
    minutes = figures["seconds"]["first_run"] / 60
    assert lacking("README.md", [f"{minutes:.0f} minutes"]) == []
    documents = yaml.safe_load((ROOT / "data" / "problems" / "demo.yml").read_text())["documents"]
    size = [f"{documents['max_tokens']:,} tokens", f"{documents['count']} documents"]
    assert lacking("README.md", size) == lacking(QUICKSTART, size) == []


def test_the_figures_of_the_demo_are_what_the_commands_print(
    minilong: Marts, demo_figures: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_figures, "PROBLEM", "minilong")
    found = demo_figures.demo_figures(minilong.workspace)
    ranked, chosen = (
        json.loads(CliRunner().invoke(cli, [name, "--problem", "minilong", "--json"]).stdout)
        for name in ("correlate", "select")
    )
    of_row = {(row["metric"], row["variant"]): row for row in ranked["rows"]}
    for row in found["rows"]:
        printed = of_row[row["metric"], row["variant"]]
        interval = printed["spearman_ci95_after_choice"]
        assert row["spearman"] == printed["spearman"]
        assert (row["low"], row["high"]) == (interval["low"], interval["high"])
        assert row["p_adjusted"] == printed["p_adjusted"]
    assert found["tracks_target"] == chosen["tracks_target"]
    assert found["not_distinguishable"] == len(chosen["not_distinguishable_from_best"])
    assert found["choice"]["held_out_mean"] == chosen["choice"]["held_out_mean"]
    assert found["tested"] == chosen["tried"]["all"]
    assert found["least_spearman"] == ranked["least_spearman_that_excludes_0"]


def test_a_gpu(gpu_results: Any) -> None:
    record = committed("benchmarks/bench_gpu.json")
    assert shows(RESULTS, gpu_results.section(record))
    rows = {
        (row["model"].removeprefix("random/Qwen2.5-"), row["what"]): row
        for row in record["rows"]
        if row["tokens"] == 32_768
    }
    of_documents = [rows[size, "ours: all probes"] for size in ("7B", "0.5B")]
    figures = [f"{row['seconds']:.1f} s" for row in of_documents]
    figures += [f"({row['share_of_peak']:.0%}" for row in of_documents]
    assert lacking("docs/how_to/gpus.md", figures) == []
    # what the emulated card holds at most is what a real one held
    card = (ROOT / "benchmarks" / "rehearsal_card.txt").read_text("utf-8")
    peaks = dict(re.findall(r"│ (\S+) +│ (\d+\.\d) +│", card))
    lowest, highest = (pick(map(float, peaks.values())) for pick in (min, max))
    retrieval = rows["7B", "ours: retrieval"]["peak_bytes"] / 2**30
    held = [f"{lowest} to {highest} GiB", f"{retrieval:.1f} GiB", peaks["Qwen/Qwen2-7B-Instruct"]]
    assert lacking(RESULTS, held) == []
    # most memory is a long text's, and the plan has room for it
    for row in gpu_results.timed(record["rows"]):
        if row["what"] in ("ours: full", "ours: retrieval"):
            assert row["peak_bytes"] <= row["predicted_bytes"]


def test_hours_of_no4k(gpu_hours: Any) -> None:
    record = committed("benchmarks/bench_gpu.json")
    assert shows(RESULTS, gpu_hours.section(record))
    found = {row["model"]: row["hours"] for row in gpu_hours.hours(record)}
    seconds = {
        row["model"].removeprefix("random/"): row["seconds"]
        for row in record["rows"]
        if (row["what"], row["tokens"]) == ("ours: all probes", 32_768)
    }
    # a model of a measured shape takes what was measured, 50 times
    for shape, measured in seconds.items():
        assert found[f"Qwen/{shape}-Instruct"] * 3600 == pytest.approx(50 * measured, rel=0.03)
    low, high = gpu_hours.measured_shares(record)
    middle = gpu_hours.share_at((low[0] * high[0]) ** 0.5, [low, high])
    assert middle == pytest.approx((low[1] + high[1]) / 2)


def test_growth(growth: Any) -> None:
    found = committed("benchmarks/growth.json")
    assert shows(RESULTS, growth.results_block(found))
    builds = growth.pieces(found, "build")
    for small, large in itertools.product(builds, builds):
        if large["rows"] > 5 * small["rows"] and large["limit_bytes"] == small["limit_bytes"]:
            assert growth.slope(small, large, "cpu_seconds") < 1
    assert all(build["peak_bytes"] < build["limit_bytes"] + (2 << 30) for build in builds)
    store = found["pieces"]["write 100000000"]
    build = found["pieces"]["build 100000000 at 4 GiB"]
    added = found["pieces"]["added 100000000"]
    figures = [
        f"{store['models']:,} models",
        f"{build['seconds']:.0f} s",
        f"{build['database_bytes'] / 1e9:.1f} GB",
        f"{store['bytes'] / 1e9:.1f} GB",
        f"{added['seconds_one_model']:.0f} s",
        f"{build['peak_bytes'] / 2**30:.1f} GiB",
    ]
    assert lacking("docs/explanation/cost.md", figures) == []
    shares = [
        f"{added['seconds_one_model'] / build['seconds']:.2f} of",
        f"{added['cpu_seconds_one_model'] / build['cpu_seconds']:.2f} of",
    ]
    assert lacking(RESULTS, shares) == []


def test_what_ships_is_counted() -> None:
    """Data recipes that runs of DCLM name, and recipes of merges."""
    scores = pytest.importorskip(
        "plugins.benchmarks.scores.score_table", reason="the plugin isn't installed"
    ).read_scores(ROOT / "data" / "published" / "dclm.parquet")
    recipes = len(set(scores["recipe"].to_pylist()) - {None})
    runs = len(set(scores["model_id"].to_pylist()))
    training = "docs/tutorials/benchmarks_over_training.md"
    assert lacking(training, [f"{runs} runs on {recipes} recipes"]) == []
    assert lacking("docs/reference/problems.md", [f"{recipes} data recipes"]) == []
    problem = yaml.safe_load((ROOT / "data" / "problems" / "minimerge.yml").read_text("utf-8"))
    alone = [each for each in problem["merges"] if each["name"].endswith("-alone")]
    assert (len(problem["merges"]), len(alone)) == (9, 4)


@pytest.fixture(scope="module")
def merges() -> dict[str, Any]:
    found: dict[str, Any] = committed("benchmarks/minimerge.json")
    return found


def test_the_ranking_of_merges(minimerge: Any, merges: dict[str, Any]) -> None:
    assert shows(MERGING, minimerge.docs_block(merges))
    minutes = f"{merges['minutes']:.0f} minutes"
    assert lacking(MERGING, [minutes]) == lacking("docs/reference/problems.md", [minutes]) == []
    assert merges["minutes"] <= 60 and merges["cores"] == 2
    assert merges["reproduction"][0].startswith("weights are equal, byte for byte")
    assert all(line.endswith("equal") for line in merges["reproduction"][1:])
    overall = {row["entry"]: row for row in merges["rankings"] if row["round"] == "overall"}
    alone = {name for name in overall if name.endswith("-alone")}
    assert len(alone) == 4 and len(overall) == 9
    assert max(overall[name]["rank"] for name in overall.keys() - alone) < min(
        overall[name]["rank"] for name in alone
    )
    first_four = sorted(overall, key=lambda name: int(overall[name]["rank"]))[:4]
    alike = {frozenset(pair) for pair in merges["cannot_be_told_apart"]["overall"]["alike"]}
    assert {frozenset(pair) for pair in itertools.combinations(first_four, 2)} <= alike
    assert merges["winner"] == "task-arithmetic"
    assert [overall[name]["product_rank"] for name in ("dare-ties", "task-arithmetic")] == [1, 2]


def test_the_accuracies_of_merges(merges: dict[str, Any]) -> None:
    right = {(row["entry"], row["task"]): row["accuracy"] for row in merges["accuracy"]}
    of_task: dict[str, dict[str, float]] = {}
    for (entry, task), value in right.items():
        of_task.setdefault(task.removeprefix("mini_final_"), {})[entry] = value
    boolq, mawps, maths = of_task["real_boolq"], of_task["real_mawps"], of_task["maths"]
    pairs = merges["cannot_be_told_apart"]
    different = {name: each["pairs"] - len(each["alike"]) for name, each in pairs.items()}
    answers = merges["open_answers"]["real_boolq"]
    count = sum(answers.values())
    least = min(v for entry, v in boolq.items() if entry != "maths-alone") - boolq["maths-alone"]
    figures = [
        f"{different['open']} of {pairs['open']['pairs']} pairs",
        f"{different['leaderboard']} and {different['final']}",
        f"{min(boolq.values()):.2f} to {max(boolq.values()):.2f}",
        f"'no' has {answers['no'] / count:.2f}",
        f"'yes' {answers['yes'] / count:.2f}",
        f"the best has {max(mawps.values()):.2f}",
        f"{maths['maths-alone']:.2f} of the generated",
        f"{mawps['maths-alone']:.2f} of MAWPS",
        f"{mawps['smollm2-alone']:.2f})",
        f"{of_task['reading']['reading-alone']:.2f} of the generated",
        f"by {least:.3f}, one question",
        f"`dare-ties` {maths['ties']:.2f}",
        f"(`linear`) {maths['linear']:.2f}",
    ]
    assert lacking(MERGING, figures) == [] and round(least * count) == 1
    assert boolq["reading-alone"] - boolq["smollm2-alone"] < 0.01
    assert maths["ties"] == maths["dare-ties"]
    assert of_task["code"]["slerp"] < of_task["code"]["smollm2-alone"]
    assert of_task["code"]["code-alone"] == right["code-alone", "mini_leaderboard_code"] == 1


def test_the_rounds_and_costs_of_merges(merges: dict[str, Any]) -> None:
    pairs = {(row["round"], row["other_round"]): row for row in merges["ranking_stability"]}
    figures = []
    for each in (("final", "open"), ("leaderboard", "open"), ("final", "leaderboard")):
        row = pairs[each]
        figures.append(f"{row['spearman']:+.2f}")
        low, high = (f"{row[end]:+.2f}" for end in ("spearman_low", "spearman_high"))
        figures.append(f"{low} to {high}".replace("-", "−"))
    costs = {row["entry"]: row for row in merges["ranking_fronts"] if row["round"] == "open"}
    merged = [row for name, row in costs.items() if not name.endswith("-alone")]
    for name, unit, scale, digits in (("seconds", "s", 1, 0), ("peak_bytes", "GB", 1e9, 1)):
        spent = sorted(row[name] / scale for row in merged)
        base = costs["smollm2-alone"][name] / scale
        figures.append(f"{spent[0]:.{digits}f} {unit} to {spent[-1]:.{digits}f} {unit}")
        figures.append(f"{base:.{digits}f} {unit}")
    assert lacking(MERGING, figures) == []
    merging = {row["entry"]: row["seconds"] for row in merges["merge_costs"] if not row["round"]}
    assert max(merging, key=lambda entry: float(merging[entry])) == "ties"
    assert len({row["checkpoint_bytes"] // 100 for row in merges["ranking_fronts"]}) == 1


def test_the_rehearsal() -> None:
    output = (ROOT / "benchmarks" / "rehearsal.txt").read_text("utf-8")
    assert "17 of 17 models" in output and "FAILED" not in output
    minutes = output.strip().splitlines()[-1]
    assert lacking("docs/tutorials/locked_problem.md", [f"({minutes}"]) == []
    assert lacking(RESULTS, [f"**{minutes}**"]) == []


def test_the_harness(eval_harness: Any) -> None:
    found = committed("benchmarks/eval_harness.json")
    assert shows(RESULTS, eval_harness.section(found))
    for model in found["models"]:
        row = eval_harness.equality(model)
        assert row["alike"] < eval_harness.ALIKE and row["relative"] < eval_harness.RELATIVE, row
        assert row["imported"] == row["numbers"] and len({n["task"] for n in model["numbers"]}) > 20
        for each in model["numbers"]:
            assert each["tokenmart"] is not None or each["reason"], each
    for row in eval_harness.timings(found["models"]):
        assert row["ratio_processor"] <= row["goal"], row


def test_the_simulation(inference_simulation: Any) -> None:
    """With right labels, and every distribution but outlying models: at most 5% false claims."""
    found = committed("benchmarks/inference_simulation.json")
    assert shows(RESULTS, inference_simulation.results_block(found))
    assert shows("docs/explanation/statistics.md", inference_simulation.summary_block(found))
    for row in found["cells"]:
        assert row["contradiction"][0] == 0.0
        if row["labels"] == "right" and row["values"] != "outliers":
            for name in ("false_claim", "confirmed_null"):
                if name in row:
                    rate, _, studies = row[name]
                    assert rate <= 0.05 + 2 * (0.05 * 0.95 / studies) ** 0.5, (name, row)
        if "covers" in row and row["labels"] == "right" and row["values"] != "outliers":
            assert row["covers"][0] >= 0.95 - 2 * (0.05 * 0.95 / row["covers"][2]) ** 0.5, row


def test_divergence() -> None:
    page, found = "docs/how_to/divergence.md", committed("docs/divergence_figures.json")
    names = {
        "smollm2-135m": "reference",
        "smollm2-135m-rope-base-40k": "RoPE base 40,000",
        "smollm2-135m-4-bit": "weights rounded to 4 bits again",
        "smollm2-135m-drop-last-1": "without its last layer",
    }
    assert found.keys() == names.keys()

    def shown(figure: dict[str, float], precision: str, unit: str = "") -> str:
        value, low, high = (format(figure[key], precision) for key in ("value", "low", "high"))
        return f"{value}{unit} [{low}, {high}]"

    def row(model: str) -> str:
        figures = found[model]
        large = figures["perplexity"]["value"] >= 100
        cells = [shown(figures["perplexity"], ".0f" if large else ".1f")]
        if names[model] == "reference":
            assert all(figures[key]["value"] == 0 for key in ("mean", "reverse", "quantile_0.99"))
            cells += ["0", "0", "100%"]
        else:
            mean, tail = figures["mean"], figures["quantile_0.99"]
            share = {key: 100 * figures["same_top"][key] for key in ("value", "low", "high")}
            cells += [
                shown(mean, ".2f" if mean["value"] >= 1 else ".3f"),
                shown(tail, ".1f" if tail["value"] >= 10 else ".2f"),
                shown(share, ".1f", "%"),
            ]
        return f"| {names[model]} | {' | '.join(cells)} |"

    assert [row(model) for model in names if not shows(page, row(model))] == []
    documents = {int(each["documents"]) for model in found.values() for each in model.values()}
    changed = 1 - found["smollm2-135m-rope-base-40k"]["same_top"]["value"]
    assert lacking(page, [f"{n} technical documents" for n in documents]) == []
    assert lacking(page, [f"top-1 token at {changed:.0%} of"]) == []
