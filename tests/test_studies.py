"""Each number on the pages of studies/ is one that their scripts recompute from the tables."""

from __future__ import annotations

import itertools
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from analysis.statistics.correlations import partial_spearman, spearman
from analysis.statistics.families import within_families

ROOT = Path(__file__).parents[1]
MINILONG = ROOT / "studies" / "minilong"
EARLY = ROOT / "studies" / "early_decisions"
MODELS90 = ROOT / "studies" / "models90"
OTHER = ROOT / "studies" / "other_findings"


def script(folder: Path) -> SimpleNamespace:
    """The names of a study's script, which is part of no package and imports nothing of ours."""
    path = folder / "recompute.py"
    ours = r"^\s*(from|import) (analysis|extract|warehouse|tokenmart)"
    assert not re.search(ours, path.read_text("utf-8"), re.MULTILINE)
    return SimpleNamespace(**runpy.run_path(str(path), run_name="recompute"))


def committed(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "figures.json").read_text("utf-8"))
    return found


def same(one: Any, other: Any, where: str = "") -> None:
    """Equal up to float64 rounding, part by part."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key, value in one.items():
            same(value, other[key], f"{where}/{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for number, pair in enumerate(zip(one, other, strict=True)):
            same(*pair, f"{where}/{number}")
    elif isinstance(one, float):
        assert one == pytest.approx(other, abs=1e-9), where
    else:
        assert one == other, where


def s(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def ci(bounds: list[float]) -> str:
    return f"{s(bounds[0])} to {s(bounds[1])}"


def percent(value: float) -> str:
    return f"{value:.1%}"


def percents(bounds: list[float]) -> str:
    return f"{100 * bounds[0]:.1f} to {100 * bounds[1]:.1f}"


def points(difference: list[float]) -> str:
    value, low, high = (f"{100 * each:.1f}".replace("-", "−") for each in difference)
    return f"{value} points ({low} to {high})"


def minilong_claims() -> list[str]:
    """Every piece of the page that has a figure, made from the recomputed figures."""
    f = committed(MINILONG)
    of, new, old, cause = f["spearman"], f["not_published"], f["published"], f["common_cause"]
    gain, bits, lead = of["retrieval_gain"], of["bits_per_byte"], f["difference"]
    two, cost, alike = f["without_two_kinds"], f["cost"], f["one_tokenizer"]
    shown = ("retrieval_gain", "bits_per_byte", "longppl", "context_gain")

    def cells(row: dict[str, float]) -> str:
        return " | ".join(s(row[name]) for name in shown)

    claims = [
        f"Spearman {s(gain['all'])} (95% CI {ci(gain['interval'])}), perplexity (bits per byte) at "
        f"{s(bits['all'])} ({ci(bits['interval'])}). The difference of {s(lead['value'])} "
        f"({ci(lead['interval'])}) is not distinguishable from 0. On the {new['models']} models",
        f"retrieval gain has {s(new['retrieval_gain'])} (exact one-sided p {new['p']:.3f}), "
        f"perplexity {s(new['bits_per_byte'])} and LongPPL {s(new['longppl'])}.",
        f"The {f['on_one_checkpoint']} read the same text; over them, retrieval gain has "
        f"{s(alike['retrieval_gain'])}, LongPPL {s(alike['longppl'])}, context gain "
        f"{s(alike['context_gain'])} and bits per byte {s(alike['bits_per_byte'])}.",
        f"{f['on_one_checkpoint']} of the {f['models']} models are that one SmolLM2 checkpoint",
        f"there are {f['series']} series",
        f"Metrics are computed on {f['documents']} pages",
        f"read {f['bytes_of_gemma'][0]:.0%} to {f['bytes_of_gemma'][1]:.0%} of the bytes",
        f"[recall](../../docs/explanation/recall.md) in {f['contexts']} contexts",
        f"printed results of {old['models']} of these {f['models']} models",
        f"on 4 documents first ({s(f['first_4_documents'])})",
        f"| published before the registration | {old['models']} | {cells(old)} |",
        f"| not published before it | {new['models']} | {cells(new)} |",
        f"| all | {f['models']} | {cells({name: of[name]['all'] for name in shown})} |",
        f"exact one-sided p is {new['p']:.3f} for retrieval gain and {new['p_bits_per_byte']:.3f} "
        "for bits per byte",
        f"has p {f['registered_p']:.4f}.",
        f"then rejects in {cause[1]['rejected']:.0%} of simulated studies",
        f"deviation of {cause[1]['noise']}; {cause[2]['rejected']:.0%} with {cause[2]['noise']}, "
        f"{cause[0]['rejected']:.0%} with {cause[0]['noise']}).",
        f"the correlation is {s(gain['series_means'])} over {f['series']} series (one-sided p "
        f"{f['series_means_p']:.3f})",
        f"the choice among {f['variants']} variants",
        f"computed from {f['text_key_tokens'][0]} tokens per model "
        f"({f['text_key_tokens'][1]} for some)",
        f"correlation of retrieval gain is between {s(two['retrieval_gain']['lowest'][0])} and "
        f"{s(two['retrieval_gain']['highest'][0])}, and that of perplexity between "
        f"{s(two['bits_per_byte']['lowest'][0])} and {s(two['bits_per_byte']['highest'][0])},",
        f"{cost['tokens_processed']:,} tokens were processed in {cost['hours']:.1f} hours",
        f"mean number of ranks (of {f['models']})",
    ]
    # "the 95% intervals of all differences between the first five contain 0"
    for pair, (low, high) in f["leads"].items():
        assert ("bits_per_byte" in pair) or low < 0 < high
    # "perplexity has its highest value without attention windows and dropped layers"
    assert set(two["bits_per_byte"]["highest"][1]) == {"window", "drop-last"}
    metrics = script(MINILONG).METRICS
    for name, row in of.items():
        metric, variant, _ = metrics[name]
        claims.append(f"| `{metric}` | `{variant}` | {s(row['all'])} | {ci(row['interval'])} | "
                      f"{s(row['series_means'])} |")  # fmt: skip
    for part, row in f["asked"].items():
        label = {"recall": "`single_key`"}.get(part, f"`{part}`")
        if part.endswith(" tokens"):
            label = f"at {int(part.split()[0]):,} tokens"
        claims.append(f"| {label} | {s(row['retrieval_gain'])} | {s(row['longppl'])} | "
                      f"{s(row['bits_per_byte'])} |")  # fmt: skip
    for kind, row in f["places"].items():
        if row["models"] > 1:
            moved = [f"{row[name]:+.1f}".replace("-", "−") for name in shown[:2]]
            claims.append(f"| {kind} | {row['models']} | {moved[0]} | {moved[1]} |")
    means = f["target_mean"]
    for task in dict.fromkeys(key.split()[0] for key in means):
        row = [f"{means[f'{task} {length}']:.2f}" for length in (1024, 2048, 4096, 8064)]
        claims.append(f"| `{'single_key' if task == 'recall' else task}` | {' | '.join(row)} |")
    return [*claims, *rescored_claims(f)]


RESCORED = {
    "digits": "right digits",
    "first_digit": "first digit",
    "exact": "exact match",
    "digits of single keys": "single keys, right digits",
    "digits less control": "single keys less control, right digits",
    "first_digit less control": "single keys less control, first digit",
    "exact less control": "single keys less control, exact match",
}
SCORES = ("digits", "first_digit", "exact")


def rescored_claims(f: dict[str, Any]) -> list[str]:
    """Those of keys that were never planted, first digits and exact matches."""
    again = f["rescored"]
    same = again["same_digits"]
    lengths = " and ".join(f"{length:,}" for length in again["lengths"])
    claims = [
        f"asked all {f['models']} models again for the four tasks with digits, at {lengths} tokens "
        f"in {again['contexts']} of the {f['contexts']} contexts ({again['answers']:,} answers)",
        f"equal those of the study in {same['groups'] - same['different']:,} of "
        f"{same['groups']:,} cases",
    ]
    for length, tasks in again["control_mean"].items():
        planted, never = tasks["single_key"], tasks["no_key"]
        cells = [f"{task[name]:.2f}" for name in SCORES for task in (planted, never)]
        n = again["control"]["smollm2-135m"][length]
        asked = f"{n['single_key']['n']} | {n['no_key']['n']}"
        claims.append(f"| {int(length):,} | {asked} | {' | '.join(cells)} |")
        assert never["digits"] > planted["digits"] / 2
    for key, words in RESCORED.items():
        row = again["targets"][key]
        rhos = [s(row[name]["rho"]) for name in ("retrieval_gain", "bits_per_byte", "longppl",
                                                 "context_gain")]  # fmt: skip
        lead = row["difference"]
        claims.append(
            f"| {words} | {row['mean']:.2f} | {rhos[0]} ({ci(row['retrieval_gain']['interval'])}) "
            f"| {' | '.join(rhos[1:])} | {s(lead['value'])} ({ci(lead['interval'])}) |"
        )
    # "more than half of the score in digits …, first digits less than a third, exact a fifth"
    for tasks in again["control_mean"].values():
        for name, most in (("first_digit", 1 / 3), ("exact", 1 / 5)):
            assert tasks["no_key"][name] < most * tasks["single_key"][name]
    exact, digits = again["targets"]["exact"], again["targets"]["digits"]
    ahead = exact["longppl_minus_gain"]
    assert exact["difference"]["value"] < digits["difference"]["value"] / 2  # "most of its lead"
    claims.append(
        f"Scored by exact match in one context (exploratory), retrieval gain has "
        f"{s(exact['retrieval_gain']['rho'])} and LongPPL {s(exact['longppl']['rho'])}."
    )
    claims.append(
        f"by exact match it has {s(exact['retrieval_gain']['rho'])} "
        f"({ci(exact['retrieval_gain']['interval'])}), and LongPPL minus retrieval gain is "
        f"{s(ahead['value'])} ({ci(ahead['interval'])})"
    )
    for model, of in again["control"].items():
        cells = [
            " / ".join(f"{tasks[task][name]:.2f}" for task in ("single_key", "no_key"))
            for tasks in of.values()
            for name in SCORES
        ]
        claims.append(f"| `{model}` | {' | '.join(cells)} |")
    more, cost, first = (f[f"literature{part}"] for part in ("", "_cost", "_first_document"))
    assert (more["documents"], first["documents"]) == (3, 1)
    assert min(row["p_adjusted"] for row in more["core"].values()) > 0.05
    best = "mutual_information longest@halves"
    assert best == max(first["core"], key=lambda key: first["core"][key]["spearman"])
    before, after = first["core"][best], more["core"][best]
    claims += [
        "Bits per byte of the documents equal those of the study to within 0.01%",
        f"on the first 3 of the {f['documents']} documents "
        f"({cost['tokens_processed']:,.0f} tokens, {cost['hours']:.1f} hours",
        "None of these metrics has an adjusted p below 0.05",
        f"adjusted for all {more['tested']} variants tested on the {f['models']} models",
        f"{more['variants'] - more['with_every_model']} of the {more['variants']} variants have no "
        "value for some models",
        f"the best of them with {s(before['spearman'])} and an adjusted p of "
        f"{before['p_adjusted']:.2f}; on 3 documents it has {s(after['spearman'])} and "
        f"{after['p_adjusted']:.2f}",
    ]
    for key, row in more["incomplete"].items():
        metric, variant = key.split()
        claims.append(
            f"| `{metric}` | `{variant}` | {row['models']} | {s(row['spearman'])} | "
            f"{ci(row['interval'])} |"
        )
    for key, row in more["core"].items():
        metric, variant = key.split()
        least, most = row["tokens"]
        tokens = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        claims.append(
            f"| `{metric}` | `{variant}` | {s(row['spearman'])} | {ci(row['interval'])} | "
            f"{row['p_adjusted']:.2f} | {tokens} |"
        )
    return claims


METHODS = {
    "bpb": "bits per byte",
    "accuracy": "accuracy",
    "task_loss": "loss on the task",
    "acc": "`acc`",
    "acc_norm": "`acc_norm`",
}


def early_claims() -> list[str]:
    f = committed(EARLY)
    claims = []
    for problem in ("olmo", "pythia"):
        of = f[problem]
        bare = of["without_evaluation"]
        table = [("parameters", "no evaluation", bare["parameters"])]
        if problem == "olmo":
            name = "parameters × planned tokens"
            table.insert(0, (name, "no evaluation", bare["parameters_x_tokens"]))
        for stage, rows in of["stages"].items():
            table += [(METHODS[method], stage, row) for method, row in rows.items()]
        for name, stage, row in table:
            line = (f"| {name} | {stage} | {percent(row['single'])} | "
                    f"{percents(row['single_interval'])} | {percent(row['mean'])} | "
                    f"{percents(row['mean_interval'])} |")  # fmt: skip
            claims.append(line + (f" {row['single_close']:.0%} |" if problem == "olmo" else ""))
    for key, row in f["dclm"].items():
        size, method = key.split()
        claims.append(
            f"| {METHODS[method]} | {size.partition('-')[0]} | {row['recipes']} | "
            f"{percent(row['single'])} | {percent(row['mean'])} | "
            f"{percents(row['mean_interval'])} |"
        )
    olmo, pythia, dclm = f["olmo"], f["pythia"], f["dclm"]
    half = [
        f"{dclm[stage]['tasks_at_most_half']} of {dclm[stage]['tasks']}"
        for stage in ("400M-1x accuracy", "1B-1x accuracy")
    ]
    means = sorted(row["mean"] for row in dclm.values())
    recipes = sorted(row["recipes"] for row in dclm.values())
    assert 0.5 < dclm["1B-1x task_loss"]["mean_interval"][0] < 0.52  # "barely excludes chance"
    claims += [
        f"By accuracy, {half[0]} single tasks decide at most half of the pairs correctly at 400M, "
        f"and {half[1]} at 1B. The mean over tasks orders {means[0]:.0%} to {means[-1]:.0%} of",
        f"With {recipes[0]} to {recipes[-1]} recipes",
        f"## OLMo: {olmo['runs']} runs, {olmo['tasks']} tasks",
        f"the {olmo['close_pairs']} pairs whose",
        f"## Pythia: {pythia['runs']} models",
        f"Of the target's {pythia['tasks_in_the_mean']} tasks, {pythia['tasks']} have both",
    ]
    compute, two = olmo["compute_minus"], olmo["first_minus_second"]
    compared = "parameters × planned tokens"
    claims += [
        f"| {name} | {at} | {points(row['single'])} | {points(row['mean'])} |"
        for name, at, row in (
            (f"OLMo: {compared} − bits per byte", "5%", compute["5%"]["bpb"]),
            (f"OLMo: {compared} − bits per byte", "25%", compute["25%"]["bpb"]),
            (f"OLMo: {compared} − accuracy", "25%", compute["25%"]["accuracy"]),
            ("Pythia: parameters − `acc`", "10%", pythia["compute_minus"]["10%"]["acc"]),
            ("OLMo: bits per byte − accuracy", "5%", two["5%"]),
        )
    ]
    excludes_0 = [
        *(compute[at]["bpb"][part] for at in ("5%", "25%") for part in ("single", "mean")),
        two["5%"]["single"],
    ]
    assert all(low > 0 for _, low, _ in excludes_0)
    contains_0 = (
        compute["25%"]["accuracy"]["mean"],
        two["5%"]["mean"],
        *(pythia["compute_minus"]["10%"]["acc"][part] for part in ("single", "mean")),
    )
    assert all(low < 0 < high for _, low, high in contains_0)
    # the words of the summary
    for part in ("single", "mean"):
        best = max(row[part] for rows in olmo["stages"].values() for row in rows.values())
        assert olmo["without_evaluation"]["parameters_x_tokens"][part] > best
        ranks = pythia["without_evaluation"]
        assert ranks["parameters"][part] == ranks["parameters_x_tokens"][part]
    return claims


def s3(value: float) -> str:
    return f"{value:+.3f}".replace("-0.000", "+0.000").replace("-", "−")


def ci3(bounds: list[float]) -> str:
    return f"{s3(bounds[0])} to {s3(bounds[1])}"


TARGETS = {
    "mean": "mean accuracy",
    "arc_easy": "ARC-easy",
    "piqa": "PIQA",
    "sciq": "SciQ",
    "lambada_openai": "LAMBADA",
}


def models90_claims() -> list[str]:
    f = committed(MODELS90)
    of, out, factor = f["targets"], f["held_out"], f["one_factor"]
    mean, held, within, merged = of["mean"], out["mean"], f["within_families"], f["merged_families"]
    best, source = held["best document"], held["projected"]
    count, some, size = f["documents"], f["fewer_documents"], f["given"]["parameters"]
    claims = [
        f"On {f['models']} models of {f['families']} families, the mean bits per byte of {count} "
        f"documents has a Spearman correlation of {s3(mean['mean'])} (95% CI "
        f"{ci3(mean['interval'])}) with the mean accuracy of three benchmarks. Single documents "
        f"have {s3(mean['lowest'])} to {s3(mean['best'])}, and "
        f"{sum(mean['distinguishable_from_mean'])} of {count} are distinguishable",
        f"the best of {count} documents minus the mean is {s3(best['minus_mean'])} "
        f"({ci3(best['interval'])} in 95% of splits), the source's own method minus the mean "
        f"{s3(source['minus_mean'])} ({ci3(source['interval'])}).",
        f"On the {size['models']} models whose names state their parameters, the number of "
        f"parameters has {s(size['size_alone'])} and the mean of the documents {s(size['mean'])}.",
        f"models of {f['parameters'][0] / 1e9:.2f} to {f['parameters'][1] / 1e9:.1f} billion",
        f"{f['models']} models of {f['families']} families are left",
        f"ranks has {factor['first']:.1%} of their variance, the second {factor['second']:.1%}. "
        f"The median correlation between two documents is {s3(factor['median_pair'])}, the lowest "
        f"{s3(factor['lowest_pair'])}.",
        f"median Spearman of {s3(some['1'][0])} with the target (5% quantile {s3(some['1'][1])}); "
        f"the mean of 10 documents has {s3(some['10'][0])} ({s3(some['10'][1])}).",
        f"Each of {out['splits']:,} splits",
        f"that were not drawn ({out['models_scored']:.0f} on average)",
        f"Given the mean of all documents, {of['lambada_openai']['beyond_mean_unadjusted']} of "
        f"{count} documents",
        f"for mean accuracy, {mean['beyond_mean_unadjusted']} documents have one. Under the null, "
        f"{0.05 * count:.0f} are expected,",
        f"({within['models']} models of {within['families']} families with two or more) the ranks "
        f"correlate at {s(within['rho'])}.",
        f"({merged['families']} families), the 95% CI of the mean is {ci3(merged['interval'])}.",
    ]
    for name, words in TARGETS.items():
        row, test = of[name], out[name]
        assert not any(row["beyond_mean"])  # "no document has … with any target"
        assert test["weighted"]["minus_mean"] == 0  # "as the plain mean does"
        for way in ("best document", "projected"):  # "all these ranges contain 0"
            assert test[way]["interval"][0] < 0 < test[way]["interval"][1]
        claims.append(
            f"| {words} | {s3(row['mean'])} | {ci3(row['interval'])} | {s3(row['lowest'])} | "
            f"{s3(row['median'])} | {s3(row['best'])} | {row['above_0']} | "
            f"{sum(row['distinguishable_from_mean'])} |"
        )
        claims.append(
            f"| {words} | {s3(test['mean']['rho'])} | {s3(test['best document']['minus_mean'])} | "
            f"{ci3(test['best document']['interval'])} | {s3(test['projected']['minus_mean'])} | "
            f"{ci3(test['projected']['interval'])} | {test['projected']['ahead']:.0%} |"
        )
    for name, row in f["given"].items():
        words = "log parameters" if name == "parameters" else "log parameters and log tokens"
        assert row["documents_above_0"] == count  # "each of the 263 documents"
        claims.append(
            f"| {words} | {row['models']} | {row['families']} | {s(row['size_alone'])} | "
            f"{ci(row['size_alone_interval'])} | {s(row['mean'])} | {s(row['partial'])} | "
            f"{ci(row['interval'])} |"
        )
    pressed, scored = f["compression"], f["benchmarks"]
    claims.append(f"{pressed['models']} of the 28 models")
    claims.append(f"The target is the mean of the four ({pressed['families']} families)")
    lead = pressed["python_minus_common_crawl"]
    claims.append(f"Python minus Common Crawl is {s(lead[0])} ({ci(lead[1:])})")
    assert pressed["common_crawl"]["given_parameters_interval"][0] < 0
    claims.append(
        f"| parameters, no text | {s(pressed['parameters'][0])} | {ci(pressed['parameters'][1])} |"
    )
    for name, words in (
        ("python", "Python"),
        ("arxiv_math", "arXiv (mathematics)"),
        ("common_crawl", "Common Crawl"),
        ("mean", "mean of three"),
    ):
        row = pressed[name]
        claims.append(
            f"| {words} | {s(row['rho'])} | {ci(row['interval'])} | {s(row['given_parameters'])} | "
            f"{ci(row['given_parameters_interval'])} |"
        )
    claims.append(
        f"Over all {scored['models']} models of `scaling148` ({scored['families']} families)"
    )
    claims += [
        f"{name.removeprefix('accuracy ').removesuffix(' model')} {s(scored[name]['rho'])} "
        f"({ci(scored[name]['interval'])})"
        for name in scored
        if name not in ("models", "families")
    ]
    return claims


def test_the_product_agrees_with_the_study_of_models() -> None:
    """The correlations that `select` prints are those of the second implementation."""
    study = script(MODELS90)
    models = study.Models()
    target, mean = models.targets()["mean"], models.bits.mean(axis=1)
    f = committed(MODELS90)
    assert spearman(mean, target) == pytest.approx(f["targets"]["mean"]["mean"], abs=1e-12)
    known = np.isfinite(models.parameters)
    rho = partial_spearman(mean[known], target[known], np.log(models.parameters[known]))
    assert rho == pytest.approx(f["given"]["parameters"]["partial"], abs=1e-12)
    rho = within_families(mean, target, models.families).value
    assert rho == pytest.approx(f["within_families"]["rho"], abs=1e-12)


@pytest.mark.parametrize(
    "folder", [MINILONG, EARLY, MODELS90, OTHER], ids=lambda folder: folder.name
)
def test_figures_are_recomputed_from_the_tables(folder: Path) -> None:
    same(json.loads(json.dumps(script(folder).figures())), committed(folder))


STATED = re.compile(r"[+−][\d.]+|\d+\.\d+|\d+%")
"""A correlation, a decimal or a percentage."""

QUOTED = {
    MINILONG: [
        "at +0.89, and bits per byte had +0.30",  # the README of commit 7189a07
        "95% CI", "95% intervals", "level 5%", "The chance level is not 0.1",
"SmolLM2-135M", "Gemma 3 270M",
    ],
    MODELS90: ["A 95% CI", "own 95% CI", "95% CI |", "95% of splits |", "central 95%", "(10%)",
               "abs/2409.05816", "abs/2404.09937"],
    EARLY: ["95% intervals", "95% CI", "chance is 50%"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("folder", "claims"),
    [(MINILONG, minilong_claims), (EARLY, early_claims), (MODELS90, models90_claims)],
    ids=["minilong", "early_decisions", "models90"],
)
def test_each_number_of_a_page_is_a_recomputed_one(folder: Path, claims: Any) -> None:
    left = " ".join((folder / "README.md").read_text("utf-8").split())
    for claim in [*claims(), *QUOTED[folder]]:
        assert claim in left, f"{folder.name}: not on the page: {claim}"
        left = left.replace(claim, " ")
    assert STATED.findall(left) == []


def test_the_models_are_those_registered() -> None:
    entry = json.loads((ROOT / "data/preregistered/minilong.json").read_text("utf-8"))["entries"][0]
    models = json.loads((MINILONG / "models.json").read_text("utf-8"))
    assert [{k: v for k, v in m.items() if k != "dose"} for m in models] == entry["models"]


def test_the_target_is_that_of_the_committed_scores() -> None:
    """The mean of items is what `tokenmart recall` stored as the overall score."""
    study = script(MINILONG)
    models = [m["full_id"] for m in json.loads((MINILONG / "models.json").read_text("utf-8"))]
    made = study.target(models, lambda task, length: length in study.COUNTED)
    stored = {
        row["model_id"]: row["score"]
        for row in pq.read_table(MINILONG / "tables/downstream_scores.parquet").to_pylist()
        if row["task"] == "overall"
    }
    assert np.allclose(made, [stored[model] for model in models], atol=1e-9)


@pytest.mark.slow
@pytest.mark.models
def test_answers_that_are_asked_again_are_those_of_the_study(tmp_path: Path) -> None:
    """On another processor a digit of a tie may differ: one answer of five digits in all."""
    out = tmp_path / "answers.parquet"
    model = "smollm2-135m"
    options = ["--models", model, "--lengths", "1024", "--contexts", "1", "--out", str(out)]
    command = [sys.executable, str(MINILONG / "ask_again.py"), *options]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    answers = pq.read_table(out).to_pylist()
    stored = {
        row["task"]: (row["score"], row["items"])
        for row in pq.read_table(MINILONG / "tables" / "item_groups.parquet").to_pylist()
        if (row["model_id"], row["cluster"]) == (model, 0)
    }
    for task, column in (("single_key", "recall"), ("multi_key", "multi_key"),
                         ("multi_value", "multi_value"),
                         ("variable_tracking", "variable_tracking")):  # fmt: skip
        digits = [row["digits"] for row in answers if row["task"] == task]
        score, items = stored[f"{column}_1024"]
        assert len(digits) == items
        assert sum(digits) == pytest.approx(score * items, abs=0.2 + 1e-9)
    controls = [row for row in answers if row["task"] == "no_key"]
    assert len(controls) == 4 * sum(row["task"] == "single_key" for row in answers)


def test_the_tasks_are_those_of_the_problem_files() -> None:
    study = script(EARLY)
    for name, tasks in (("dclm", study.DCLM_CORE), ("pythia", study.PYTHIA_TASKS)):
        problem = yaml.safe_load((ROOT / "data" / "problems" / f"{name}.yml").read_text("utf-8"))
        assert tuple(problem["target"]["benchmarks"]) == tasks


def test_the_first_screen_states_what_the_studies_state() -> None:
    """Each correlation and percentage of the README's results, and no other."""
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())
    f, early, many = committed(MINILONG), committed(EARLY)["olmo"], committed(MODELS90)
    of, lead, new = f["spearman"], f["difference"], f["not_published"]
    first = early["stages"]["5%"]
    bare = early["without_evaluation"]["parameters_x_tokens"]
    mean, size = many["targets"]["mean"], many["given"]["parameters"]
    exact = f["rescored"]["targets"]["exact"]
    best = many["held_out"]["mean"]["best document"]
    orders = [(row["single"], row["mean"]) for row in (first["bpb"], first["accuracy"], bare)]
    claims = (
        f"There are {f['models']} models: two 4-bit checkpoints of 135M and 270M parameters, and "
        f"{f['models'] - 2} modified versions. The last column has the {new['models']} models "
        "whose results were not published before retrieval gain was proposed.",
        f"| metric | Spearman, {f['models']} models | 95% CI | Spearman, {new['models']} models |",
        *(
            f"| {name.replace('_', ' ').replace('longppl', 'LongPPL')} | {s(of[name]['all'])} | "
            f"{ci(of[name]['interval'])} | {s(new[name])}{p} |"
            for name, p in (
                ("retrieval_gain", f" (p {new['p']:.3f})"),
                ("longppl", ""),
                ("context_gain", ""),
                ("bits_per_byte", ""),
            )
        ),
        "The 95% intervals of all differences from retrieval gain contain 0 (bits per byte: "
        f"{s(lead['value'])}, {ci(lead['interval'])}). With exact "
        "matches as the target (one context, exploratory), retrieval gain has "
        f"{s(exact['retrieval_gain']['rho'])} and LongPPL {s(exact['longppl']['rho'])}.",
        f"On {many['models']} published models of {many['families']} families, the mean bits per "
        f"byte of {many['documents']} synthetic documents correlates with the accuracy on three "
        f"short benchmarks at Spearman {s3(mean['mean'])} (95% CI {ci3(mean['interval'])}). "
        f"The number of parameters has {s(size['size_alone'])}, on the {size['models']} models",
        "On held-out families, the Spearman of the best document minus that of the mean is "
        f"{s3(best['minus_mean'])} "
        f"(95% of splits: {ci3(best['interval'])})",
        f"On published scores of {early['runs']} OLMo runs, bits per byte after 5% of training "
        f"order {orders[0][0]:.0%} of pairs of runs as the final scores of single tasks do, "
        f"accuracy {orders[1][0]:.0%}, and parameters × planned tokens, without any evaluation, "
        f"{orders[2][0]:.0%}. For the mean over tasks, these are {orders[0][1]:.0%}, "
        f"{orders[1][1]:.0%} and {orders[2][1]:.0%}",
    )
    for other in ("longppl", "context_gain", "bits_per_byte"):
        low, high = f["leads"][f"retrieval_gain - {other}"]
        assert low < 0 < high
    for claim in claims:
        assert claim in text, claim
        text = text.replace(claim, " ")
    # versions, an address, columns of numbers that are no results
    for other in ("Python 3.10", "127.0.0.1", "version 0.1", "Apache-2.0"):
        text = text.replace(other, " ")
    assert STATED.findall(text) == []


def test_the_findings_are_those_of_the_scripts() -> None:
    text = " ".join((ROOT / "docs" / "findings" / "index.md").read_text("utf-8").split())
    f, early, many = committed(MINILONG), committed(EARLY)["olmo"], committed(MODELS90)
    other = committed(OTHER)
    mean = many["targets"]["mean"]
    claims = [
        f"measured recall of {f['models']} small models",
        f"adjusted for the choice among {f['variants']} variants",
        f"up to {list(early['stages'])[-1]} of training",
        f"three short benchmarks of {many['models']} published models",
        f"All {many['documents']} do, about as their mean does (Spearman {s(mean['mean'])})",
    ]
    for claim in claims:
        assert claim in text, claim
        text = text.replace(claim, " ")
    assert STATED.findall(text) == []
    for name in ("retrieval_gain", "longppl", "context_gain"):
        assert f["spearman"][name]["interval"][0] > 0
    assert f["difference"]["interval"][0] < 0
    assert f["rescored"]["targets"]["exact"]["longppl_minus_gain"]["interval"][0] > 0
    signal = (ROOT / "docs" / "explanation" / "signal_of_benchmarks.md").read_text("utf-8")
    bare = early["without_evaluation"]["parameters_x_tokens"]["mean"]
    assert (
        f"Parameters × planned tokens, without an evaluation, order {bare:.0%} of the pairs of all "
        f"{early['runs']} runs"
    ) in " ".join(signal.split())
    for stage in early["compute_minus"].values():
        assert all(low > 0 for _, low, _ in stage["bpb"].values())
    assert mean["above_0"] == many["documents"] and not any(mean["distinguishable_from_mean"])
    # "every merge is above every expert; the first four are not distinguishable"
    merges = other["minimerge"]
    assert merges["least_merge_minus_best_expert"] > 0 and merges["merges_above_experts"] > 0.95
    first = list(merges["score"])[:4]
    for one, two in itertools.combinations(range(4), 2):
        assert 0.025 < merges["above"][f"{first[one]} > {first[two]}"] < 0.975
    stored = json.loads((ROOT / "benchmarks" / "minimerge.json").read_text("utf-8"))["rankings"]
    for row in stored:
        if row["round"] == "overall":
            assert row["score"] == pytest.approx(merges["score"][row["entry"]], abs=1e-9)
    # "with three of four scoring methods …; with accuracy, half of the in-sample gain is optimism"
    items = other["four_small_models"]
    assert sorted(row["gain"] > 0.1 for row in items.values()) == [False, True, True, True]
    assert items["acc"]["optimism_share"] == pytest.approx(0.5, abs=0.1)
