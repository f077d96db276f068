"""Figures in docs and benchmarks/RESULTS.md are those of committed files that a command wrote."""

from __future__ import annotations

import importlib
import itertools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from made_up_marts import Marts

from tokenmart import cli

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
QUICKSTART = (DOCS / "quickstart.md").read_text("utf-8")
RESULTS = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")


def of_benchmarks(name: str) -> Any:
    """A fixture: a module of the folder `benchmarks`, which is no package."""

    @pytest.fixture(name=name)
    def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module(name)
        sys.modules.pop(name)

    return module


def page(name: str) -> str:
    """A page's words, with single spaces."""
    return " ".join((ROOT / name).read_text("utf-8").split())


demo_figures = of_benchmarks("demo_figures")
inference_simulation = of_benchmarks("inference_simulation")
curate_series = of_benchmarks("curate_series")
growth = of_benchmarks("growth")
minimerge = of_benchmarks("minimerge")
eval_harness_table = of_benchmarks("eval_harness_table")
gpu_results = of_benchmarks("gpu_results")


def test_the_guide_says_what_choosing_items_was_worth(curate_series: Any) -> None:
    record = json.loads((ROOT / "benchmarks" / "curate_series.json").read_text("utf-8"))
    guide = (DOCS / "explanation" / "signal_of_benchmarks.md").read_text("utf-8")
    worth, lengths = curate_series.docs_tables(record)
    assert worth in guide and lengths in guide and record["command"] in guide
    text = " ".join(guide.split())
    assert f"{record['training_tokens'] / 1e6:.2f} million tokens" in text
    assert f"{record['checkpoints']} checkpoints. They answer {record['items']} items" in text
    assert record["items"] == 4 * record["mislabelled"]
    assert f"in {sum(record['minutes'].values()):.0f} minutes" in text
    millions = sorted({f"{run['parameters'] / 1e6:.1f}" for run in record["runs"].values()})
    assert f"{' and '.join(millions)} million parameters" in text

    found = record["scoring_methods"]
    labels = {
        reading: {row["group"]: row for row in of["by_subject"]} for reading, of in found.items()
    }
    for reading, middle in (("acc", " of the sound items and "), ("acc_norm", " and ")):
        sound, other = (labels[reading][name]["share_chosen"] for name in ("sound", "mislabelled"))
        assert f"`{reading}` it takes {sound:.0%}{middle}{other:.0%}" in text or (
            f"`{reading}` {sound:.0%}{middle}{other:.0%}" in text
        )
    assert f"({labels['acc']['sound']['score']:.2f} of 1 with four" in text
    assert f"an SQ of {found['correct_loglik']['held_out']['sq']['all']:.2f} over all" in text
    rises = [labels["correct_loglik"][name]["rise"] for name in ("mislabelled", "sound")]
    assert f"by {rises[0]:.1f} nats against {rises[1]:.1f}" in text
    for reading in ("acc", "acc_norm", "norm_correct_prob"):
        sq = found[reading]["held_out"]["sq"]
        assert sq["chosen"] - sq["all"] > 1.5 * (sq["random"] - sq["all"]) > 0
    sq = found["acc"]["held_out"]["sq"]
    assert sq["optimism"] / (sq["in_sample"] - sq["all"]) == pytest.approx(0.5, abs=0.1)


def test_the_quickstart_shows_the_committed_figures_of_the_demo(demo_figures: Any) -> None:
    figures = json.loads((DOCS / "demo_figures.json").read_text("utf-8"))
    assert demo_figures.page_block(figures) in QUICKSTART
    assert demo_figures.times_text(figures["seconds"]) in QUICKSTART
    assert figures["command"] in QUICKSTART
    minutes = (figures["seconds"]["first_run"] + figures["seconds"]["setup"]) / 60
    readme = " ".join((ROOT / "README.md").read_text("utf-8").split())
    assert f"about {minutes:.0f} minutes on two cores" in readme


def test_what_a_gpu_did_is_shown_as_measured(gpu_results: Any) -> None:
    record = json.loads((ROOT / "benchmarks" / "bench_gpu.json").read_text("utf-8"))
    assert gpu_results.section(record) in RESULTS
    guide = " ".join((DOCS / "how_to" / "gpus.md").read_text("utf-8").split())
    large, small = (
        next(
            row
            for row in record["rows"]
            if row["model"] == f"random/Qwen2.5-{size}"
            and (row["tokens"], row["what"]) == (32_768, "ours: all probes")
        )
        for size in ("7B", "0.5B")
    )
    assert (
        f"a document of 32,768 tokens took {large['seconds']:.1f} s for a model of 7B "
        f"({large['share_of_peak']:.0%} of the peak) and {small['seconds']:.1f} s for one of 0.5B "
        f"({small['share_of_peak']:.0%};"
    ) in guide
    # what the emulated card holds at most is what a real one held
    (retrieval,) = (
        row["peak_bytes"] / 2**30
        for row in record["rows"]
        if row["model"] == large["model"]
        and (row["tokens"], row["what"]) == (32_768, "ours: retrieval")
    )
    card = (ROOT / "benchmarks" / "rehearsal_card.txt").read_text("utf-8")
    peaks = dict(re.findall(r"│ (\S+) +│ (\d+\.\d) +│", card))
    lowest, highest = (pick(map(float, peaks.values())) for pick in (min, max))
    page = " ".join(RESULTS.split())
    assert f"peaks of {lowest} to {highest} GiB" in page
    assert f"the H100 above measured {retrieval:.1f} GiB" in page
    assert f"probes the emulation has {peaks['Qwen/Qwen2-7B-Instruct']}." in page
    # most memory is a long text's, and the plan has room for it
    for row in gpu_results.timed(record["rows"]):
        if row["what"] in ("ours: full", "ours: retrieval"):
            assert row["peak_bytes"] <= row["predicted_bytes"]


def test_growth_is_shown_as_it_was_measured(growth: Any) -> None:
    found = json.loads((ROOT / "benchmarks" / "growth.json").read_text("utf-8"))
    assert growth.results_block(found) in RESULTS
    builds = growth.pieces(found, "build")
    for small, large in itertools.product(builds, builds):
        if large["rows"] > 5 * small["rows"]:
            assert growth.slope(small, large, "cpu_seconds") < 1
            assert large["peak_bytes"] < large["limit_bytes"] + (2 << 30)
    store = found["pieces"]["write 100000000"]
    build = found["pieces"]["build 100000000 at 4 GiB"]
    added = found["pieces"]["added 100000000"]
    for figure in (
        f"of {store['models']:,} models take {build['seconds']:.0f} s",
        f"{build['database_bytes'] / 1e9:.1f} GB for {store['bytes'] / 1e9:.1f} GB",
        f"one new model takes {added['seconds_one_model']:.0f} s",
        f"peak of the process {build['peak_bytes'] / 2**30:.1f} GiB",
    ):
        assert figure in page("docs/explanation/cost.md")
    assert (
        f"{added['seconds_one_model'] / build['seconds']:.2f} of the time of a full build of 10⁸ "
        f"rows, and {added['cpu_seconds_one_model'] / build['cpu_seconds']:.2f} of its"
    ) in page("benchmarks/RESULTS.md")


def test_the_guide_counts_what_ships() -> None:
    """Data recipes that runs of DCLM name, and recipes of merges."""
    scores = pytest.importorskip(
        "plugins.benchmarks.scores.score_table", reason="the plugin isn't installed"
    ).read_scores(ROOT / "data" / "published" / "dclm.parquet")
    recipes = len(set(scores["recipe"].to_pylist()) - {None})
    runs = len(set(scores["model_id"].to_pylist()))
    guide = (DOCS / "tutorials" / "benchmarks_over_training.md").read_text("utf-8")
    guide = " ".join(guide.split())
    listed = " ".join((DOCS / "reference" / "problems.md").read_text("utf-8").split())
    assert f"`dclm` ({runs} runs on {recipes} recipes)" in guide
    assert f"1B and 7B parameters on {recipes} data recipes" in listed
    problem = yaml.safe_load((ROOT / "data" / "problems" / "minimerge.yml").read_text("utf-8"))
    alone = [each for each in problem["merges"] if each["name"].endswith("-alone")]
    assert (len(problem["merges"]), len(alone)) == (9, 4)
    assert "the base and five merges of them: nine entries" in listed


MERGING = DOCS / "tutorials" / "ranking_merged_models.md"
MERGES = json.loads((ROOT / "benchmarks" / "minimerge.json").read_text("utf-8"))


def test_the_guide_shows_what_merging_found(minimerge: Any) -> None:
    guide = MERGING.read_text("utf-8")
    text = " ".join(guide.split())
    assert minimerge.docs_block(MERGES) in guide
    assert f"in {MERGES['minutes']:.0f} minutes: three experts" in text
    assert MERGES["minutes"] <= 60 and MERGES["cores"] == 2
    listed = (DOCS / "reference" / "problems.md").read_text("utf-8")
    assert f"takes {MERGES['minutes']:.0f} minutes on two cores" in listed
    assert MERGES["reproduction"][0].startswith("weights are equal, byte for byte")
    assert all(line.endswith("equal") for line in MERGES["reproduction"][1:])
    overall = {row["entry"]: row for row in MERGES["rankings"] if row["round"] == "overall"}
    alone = {name for name in overall if name.endswith("-alone")}
    assert len(alone) == 4 and len(overall) == 9
    assert max(overall[name]["rank"] for name in overall.keys() - alone) < min(
        overall[name]["rank"] for name in alone
    )
    first_four = sorted(overall, key=lambda name: int(overall[name]["rank"]))[:4]
    alike = {frozenset(pair) for pair in MERGES["cannot_be_told_apart"]["overall"]["alike"]}
    assert {frozenset(pair) for pair in itertools.combinations(first_four, 2)} <= alike
    assert "**The first four are not distinguishable.**" in text
    assert MERGES["winner"] == "task-arithmetic"
    assert [overall[name]["product_rank"] for name in ("dare-ties", "task-arithmetic")] == [1, 2]


def test_the_guides_words_about_merging_are_those_of_the_figures() -> None:
    text = " ".join(MERGING.read_text("utf-8").split())
    right = {(row["entry"], row["task"]): row["accuracy"] for row in MERGES["accuracy"]}
    of_task: dict[str, dict[str, float]] = {}
    for (entry, task), value in right.items():
        of_task.setdefault(task.removeprefix("mini_final_"), {})[entry] = value
    boolq, mawps, maths = of_task["real_boolq"], of_task["real_mawps"], of_task["maths"]
    alike = MERGES["cannot_be_told_apart"]
    different = [alike[each]["pairs"] - len(alike[each]["alike"]) for each in alike]
    of_round = dict(zip(alike, different, strict=True))
    assert (
        f"{of_round['open']} of {alike['open']['pairs']} pairs of entries are distinguishable; in "
        f"the hidden rounds, {of_round['leaderboard']} and {of_round['final']} are."
    ) in text
    answers = MERGES["open_answers"]["real_boolq"]
    count = sum(answers.values())
    assert (
        f"all entries have {min(boolq.values()):.2f} to {max(boolq.values()):.2f}; always "
        f"answering 'no' has {answers['no'] / count:.2f}, always 'yes' {answers['yes'] / count:.2f}"
    ) in text
    assert f"On MAWPS, the best has {max(mawps.values()):.2f}." in text
    assert f"expert solves {maths['maths-alone']:.2f} of the generated word problems and " in text
    assert (
        f"{mawps['maths-alone']:.2f} of MAWPS (the base model {mawps['smollm2-alone']:.2f})" in text
    )
    assert f"answers {of_task['reading']['reading-alone']:.2f} of the generated yes/no" in text
    assert boolq["reading-alone"] - boolq["smollm2-alone"] < 0.01
    others = sorted(value for entry, value in boolq.items() if entry != "maths-alone")
    least = others[0] - boolq["maths-alone"]
    assert f"`maths-alone` is last in BoolQ by {least:.3f}, one question." in text
    assert round(least * count) == 1
    assert f"the maths expert alone has {maths['maths-alone']:.2f}, `ties` and " in text
    assert maths["ties"] == maths["dare-ties"]
    assert f"`dare-ties` {maths['ties']:.2f}, and the plain mean of the experts (`linear`) " in text
    assert f"(`linear`) {maths['linear']:.2f}." in text
    assert of_task["code"]["slerp"] < of_task["code"]["smollm2-alone"]
    assert of_task["code"]["code-alone"] == right["code-alone", "mini_leaderboard_code"] == 1


def test_the_guide_compares_the_rounds_of_merging_as_measured() -> None:
    text = " ".join(MERGING.read_text("utf-8").split())
    pairs = {(row["round"], row["other_round"]): row for row in MERGES["ranking_stability"]}
    hidden = [pairs["final", "open"], pairs["leaderboard", "open"], pairs["final", "leaderboard"]]
    assert f"{hidden[0]['spearman']:.2f}" == f"{hidden[1]['spearman']:.2f}"
    final, leaderboard = (
        f"{row['spearman_low']:+.2f} to {row['spearman_high']:+.2f}".replace("-", "−")
        for row in hidden[:2]
    )
    assert (
        f"Spearman {hidden[0]['spearman']:+.2f} (95% CI of the final {final}, of the leaderboard "
        f"{leaderboard})"
    ) in text
    low, high = (f"{hidden[2][f'spearman_{end}']:+.2f}" for end in ("low", "high"))
    assert f"with each other at {hidden[2]['spearman']:+.2f} ({low} to {high})" in text
    costs = {row["entry"]: row for row in MERGES["ranking_fronts"] if row["round"] == "open"}
    merged = [row for name, row in costs.items() if not name.endswith("-alone")]
    seconds = sorted(row["seconds"] for row in merged)
    memory = sorted(row["peak_bytes"] / 1e9 for row in merged)
    base = costs["smollm2-alone"]
    assert (
        f"take {seconds[0]:.0f} s to {seconds[-1]:.0f} s and {memory[0]:.1f} GB to "
        f"{memory[-1]:.1f} GB, the base model alone {base['seconds']:.0f} s and "
        f"{base['peak_bytes'] / 1e9:.1f} GB."
    ) in text
    merging = {row["entry"]: row["seconds"] for row in MERGES["merge_costs"] if not row["round"]}
    assert max(merging, key=lambda entry: float(merging[entry])) == "ties"
    assert len({row["checkpoint_bytes"] // 100 for row in MERGES["ranking_fronts"]}) == 1


def test_the_rehearsals_minutes_are_those_of_its_output() -> None:
    output = (ROOT / "benchmarks" / "rehearsal.txt").read_text("utf-8")
    assert "17 of 17 models" in output and "FAILED" not in output
    minutes = output.strip().splitlines()[-1]
    assert minutes.endswith(" minutes") and f"({minutes} on two cores" in (
        (DOCS / "tutorials" / "locked_problem.md").read_text("utf-8")
    )
    assert f"**{minutes}**" in RESULTS


def test_the_figures_of_the_demo_are_what_the_commands_print(
    minilong: Marts, demo_figures: Any
) -> None:
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
    assert found["tries"] == chosen["tried"]["all"]
    assert found["least_spearman"] == ranked["least_spearman_that_excludes_0"]


def test_the_table_beside_the_harness_is_that_of_its_output(eval_harness_table: Any) -> None:
    found = json.loads((ROOT / "benchmarks" / "eval_harness.json").read_text("utf-8"))
    assert eval_harness_table.section(found) in RESULTS
    for model in found["models"]:
        row = eval_harness_table.equality(model)
        assert row["alike"] < eval_harness_table.ALIKE, row
        assert row["relative"] < eval_harness_table.RELATIVE, row
        assert row["imported"] == row["numbers"] and len({n["task"] for n in model["numbers"]}) > 20
        for each in model["numbers"]:
            assert each["tokenmart"] is not None or each["reason"], each
    for row in eval_harness_table.timings(found["models"]):
        assert row["ratio_processor"] <= row["goal"], row


def test_the_table_of_the_simulation_is_the_committed_one(inference_simulation: Any) -> None:
    found = json.loads((ROOT / "benchmarks" / "inference_simulation.json").read_text("utf-8"))
    assert inference_simulation.results_block(found) in RESULTS
    page = (DOCS / "explanation" / "statistics.md").read_text("utf-8")
    assert inference_simulation.summary_block(found) in page


def test_the_simulation_keeps_its_promises(inference_simulation: Any) -> None:
    """With right labels, and every distribution but outlying models: at most 5% false claims."""
    found = json.loads((ROOT / "benchmarks" / "inference_simulation.json").read_text("utf-8"))
    for row in found["cells"]:
        assert row["contradiction"][0] == 0.0
        if row["labels"] == "right" and row["values"] != "outliers":
            for name in ("false_claim", "confirmed_null"):
                if name in row:
                    rate, _, studies = row[name]
                    assert rate <= 0.05 + 2 * (0.05 * 0.95 / studies) ** 0.5, (name, row)
        if "covers" in row and row["labels"] == "right" and row["values"] != "outliers":
            assert row["covers"][0] >= 0.95 - 2 * (0.05 * 0.95 / row["covers"][2]) ** 0.5, row


def test_the_tokens_of_the_demo_are_those_of_its_problem_file() -> None:
    demo = yaml.safe_load((ROOT / "data" / "problems" / "minilong.yml").read_text())["demo"]
    words = f"scores the first {demo['max_tokens']:,} tokens of {demo['documents']} documents with"
    for name in ("README.md", "docs/quickstart.md"):
        assert words in " ".join((ROOT / name).read_text().split()), name
