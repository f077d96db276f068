"""Which metrics track the target: one test and one interval, against plain loops and truths."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from analysis.statistics.decisions import decide

FAMILIES = ["q"] * 9 + ["l"] * 5 + ["m"] * 2 + ["y"]
ALONE = list(range(17))


def study(seed, rho=0.0, others=19, families=ALONE, share=0.0):
    """One metric with a correlation, others without, target; families share variance."""
    generator = np.random.default_rng(seed)
    places = np.unique(families, return_inverse=True)[1]

    def columns(*shape):
        levels = generator.normal(size=(*shape, places.max() + 1))[..., places]
        own = generator.normal(size=(*shape, len(places)))
        return math.sqrt(1 - share) * own + math.sqrt(share) * levels

    target = columns()
    good = rho * target + math.sqrt(1 - rho**2) * columns()
    return np.vstack([good[None], columns(others)]), target


def test_rho_error_and_p_agree_with_a_plain_loop():
    """Models alone: the p is that of permutations, of the largest of all metrics."""
    metrics, target = study(0, 0.6, others=4)
    found = decide(metrics, target, ALONE, draws=4000)
    rho = [scipy.stats.spearmanr(row, target)[0] for row in metrics]
    assert found.overall.rho == pytest.approx(rho)
    error = [math.sqrt((1 + r**2 / 2) / 14) for r in rho]
    assert found.overall.error == pytest.approx(error)
    generator = np.random.default_rng(1)
    largest = []
    for _ in range(2000):
        drawn = [scipy.stats.spearmanr(row, generator.permutation(target))[0] for row in metrics]
        largest.append(max(math.atanh(r) / math.sqrt((1 + r**2 / 2) / 14) for r in drawn))
    for row in range(5):
        reached = np.mean(np.array(largest) >= math.atanh(rho[row]) / error[row])
        assert found.overall.p[row] == pytest.approx(min(2 * reached, 1), abs=0.06)
    assert not found.within.tested.any() and found.overall.design_effect == 1.0


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("level", [0.05, 0.01])
def test_a_decision_and_its_interval_agree(seed, level):
    metrics, target = study(seed, 0.85, families=FAMILIES, share=0.3)
    found = decide(metrics, target, FAMILIES, level=level)
    for branch in (found.overall, found.within):
        for row in range(len(metrics)):
            assert (branch.interval(row).low > 0) == (branch.p[row] < level)
    for row in range(len(metrics)):
        lows = [branch.interval(row).low for branch in (found.overall, found.within)]
        claimed = {"tracks"} if found.is_decided(row) else {"undecided"}
        assert (found.verdict(row) in claimed) == (max(lows) > 0 or claimed == {"undecided"})
        assert (found.p(row) < level) == (max(lows) > 0)


def test_within_families_the_error_costs_a_model_a_family():
    metrics, target = np.random.default_rng(3).normal(size=(4, 17)), np.arange(17.0)
    found = decide(metrics, target, FAMILIES, draws=100).within
    # 17 models less 3 family means
    assert found.error == pytest.approx(np.sqrt((1 + found.rho**2 / 2) / (17 - 3 - 3)))


def test_within_families_is_the_partial_correlation_of_ranks():
    metrics, target = study(3, 0.7, families=FAMILIES, share=0.5)
    found = decide(metrics, target, FAMILIES)
    dummies = np.array([[f == name for name in "qlmy"] for f in FAMILIES], dtype=float)
    for row, metric in enumerate(metrics):
        rest = []
        for column in (metric, target):
            ranks = scipy.stats.rankdata(column)
            rest.append(ranks - dummies @ np.linalg.lstsq(dummies, ranks, rcond=None)[0])
        assert found.within.rho[row] == pytest.approx(np.corrcoef(*rest)[0, 1])


@pytest.mark.parametrize(
    ("models", "families", "code"),
    [
        (5, "aabbc", "too-few"),  # 8 orders
        (8, "aaaabbbc", "tracks"),  # 4! · 3! = 144 orders
        (8, "aabbccdd", "tracks"),
        (4, "abcd", "too-few"),
    ],
)
def test_the_floor_below_which_nothing_is_claimed(models, families, code):
    target = np.arange(float(models))
    found = decide(target[None], target, list(families))
    assert found.verdict(0) == code
    assert found.too_few == (code == "too-few")


def test_few_models_are_too_few_for_many_metrics():
    """Six models have 720 orders: enough for one metric, too few for 300."""
    generator = np.random.default_rng(0)
    target = np.arange(6.0)
    metrics = np.vstack([target, generator.normal(size=(300, 6))])
    one, many = decide(metrics[:1], target, range(6)), decide(metrics, target, range(6))
    assert one.verdict(0) == "tracks" and many.verdict(0) == "too-few"
    assert one.overall.attainable < 0.05 <= many.overall.attainable


def test_whole_series_too_few_to_exchange():
    """Five series of eight models in two families: 4! orders, so no exact p below 2/24."""
    target = np.arange(8.0)
    families = ["s"] * 7 + ["g"]
    series = ["base", "rope", "rope", "rope", "window", "noise", "drop", "base"]
    found = decide(target[None], target, families, [series])
    assert found.orders == 24 and found.verdict(0) == "too-few"


def test_codes_for_what_cannot_be_said():
    metrics, target = study(5, 0.99)
    rows = np.vstack([metrics[:1], -target, np.ones(17), metrics[:1], metrics[1:2]])
    rows[3, 0] = np.nan
    found = decide(rows, target, ALONE)
    assert [found.verdict(row) for row in range(5)] == [
        "tracks", "opposite", "constant", "missing-models", "not-distinguishable",
    ]  # fmt: skip
    assert found.overall.interval(1).high < 0 and found.evidence(3) == ("all-models",)
    assert math.isnan(found.overall.interval(2).low) and found.tested == 4
    constant = decide(metrics, np.ones(17), ALONE)
    assert constant.verdict(0) == "constant-target" and constant.tested == 0
    assert math.isnan(constant.overall.critical) and math.isnan(constant.overall.least_rho)


def test_metrics_with_few_models_do_not_count_and_others_count_by_their_own_error():
    metrics, target = study(6, 0.9, others=60)
    alone = decide(metrics[:1], target, ALONE).overall
    for models, tested in ((8, 1), (9, 61)):
        few = metrics.copy()
        few[1:, models:] = np.nan
        found = decide(few, target, ALONE).overall
        assert found.tested.sum() == tested
        assert (found.p[0] == alone.p[0]) == (tested == 1) and found.p[0] >= alone.p[0]
        if tested > 1:
            expected = scipy.stats.spearmanr(few[5, :9], target[:9])[0]
            assert found.rho[5] == pytest.approx(expected)
            assert found.error[5] > found.error[0] * 1.3


def test_copies_cost_nothing_and_the_order_of_columns_neither():
    metrics, target = study(5, 0.7)
    once = decide(metrics, target, FAMILIES)
    often = decide(np.repeat(metrics, 3, axis=0), target, FAMILIES)
    turned = decide(metrics[::-1], target, FAMILIES)
    assert once.overall.p == pytest.approx(often.overall.p[::3], abs=1e-12)
    assert once.overall.p == pytest.approx(turned.overall.p[::-1], abs=1e-12)
    assert once.within.critical == pytest.approx(often.within.critical, abs=1e-12)


def test_a_claim_is_only_as_strong_as_under_the_coarsest_grouping():
    """Twelve copies of three models: alone they look like twelve, in families like three."""
    level = np.repeat([0.0, 1.0, 2.0], 4)
    generator = np.random.default_rng(4)
    target = level + 0.1 * generator.normal(size=12)
    metric = (level + 0.1 * generator.normal(size=12))[None]
    alone = decide(metric, target, range(12))
    families = decide(metric, target, level.tolist())
    developers = decide(metric, target, range(12), [range(12), level.tolist()])
    assert alone.verdict(0) == "tracks"
    assert families.verdict(0) != "tracks" and developers.verdict(0) != "tracks"
    assert developers.overall.p[0] > 10 * alone.overall.p[0]


def test_a_level_that_families_share_is_no_evidence():
    level = np.repeat([0.0, 10.0], [12, 5])
    generator = np.random.default_rng(4)
    target = level + generator.normal(size=17)
    metrics = np.vstack([level + generator.normal(size=17), generator.normal(size=(9, 17))])
    found = decide(metrics, target, ["a"] * 12 + ["b"] * 5)
    assert found.overall.rho[0] > 0.6 and found.overall.design_effect == 1
    assert found.overall.error[0] > 1.9 * found.overall.error[1]
    assert found.verdict(0) == "not-distinguishable"


def test_the_smallest_rho_that_may_be_claimed_is_where_the_interval_touches_0():
    metrics, target = study(8, 0.8)
    found = decide(metrics, target, ALONE).overall
    error = math.sqrt((1 + found.least_rho**2 / 2) / 14)
    assert math.atanh(found.least_rho) - found.critical * error == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("models", "sizes", "share"),
    [
        (8, (4, 3, 1), 0.0),
        pytest.param(8, (4, 3, 1), 0.8, marks=pytest.mark.slow),
        pytest.param(17, (9, 5, 2, 1), 0.0, marks=pytest.mark.slow),
        (17, (9, 5, 2, 1), 0.8),
    ],
)
def test_false_claims_stay_below_5_percent(models, sizes, share):
    """benchmarks/inference_simulation.py has more designs and 1,000 studies of each."""
    families = [name for name, size in enumerate(sizes) for _ in range(size)]
    false = 0
    for seed in range(100):
        metrics, target = study([seed, 9], families=families, share=share)
        found = decide(metrics, target, families, seed=seed, draws=399)
        false += any(found.verdict(row) == "tracks" for row in range(len(metrics)))
    assert false <= 11  # 5 expected at most; more than 11 once in 200


def test_the_seed_decides_nothing():
    """Studies with a p near 5%: where both seeds decide, they agree, and few stay undecided."""
    found: dict[str, list[str]] = {}
    for number in range(12):
        metrics, target = study([number, 9], 0.75, others=9)
        for seed in (1, 2):
            decisions = decide(metrics, target, ALONE, seed=seed, draws=400)
            found.setdefault(str(number), []).append(decisions.verdict(0))
    assert any("tracks" in pair for pair in found.values())
    for pair in found.values():
        assert len(set(pair) - {"undecided"}) <= 1
    assert sum("undecided" in pair for pair in found.values()) <= 2


def test_draws_are_added_where_a_p_is_near_the_level_only():
    metrics, target = study(5, 0.97)
    sure = decide(metrics, target, ALONE, draws=400)
    near = decide(*study([8, 9], 0.75, others=9), ALONE, draws=400)
    assert near.draws == 10_000 > sure.draws
    assert decide(metrics, target, ALONE, draws=400, most_draws=400).draws == 400


def test_good_metrics_are_found():
    found = 0
    for seed in range(60):
        metrics, target = study([seed, 9], 0.9, families=FAMILIES, share=0.5)
        found += decide(metrics, target, FAMILIES, draws=399).verdict(0) == "tracks"
    assert found >= 45
