"""The engine at true size on GPUs that do not exist: kernels, masks, waits, memory.

Shapes without data (see `fake_gpu`): a CPU build of torch suffices. One model of each shape.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_gpu import A100_40, H100, RTX_4080, RTX_4090, Card, Meter, fake_gpu
from true_size_models import LONGEST, build, calls, locked_problem

from extract.failures import DoesNotFitError
from extract.planning.cost import Footprint, ModelSize, footprint
from extract.scoring.budgets import SUFFIX_TOKENS
from extract.scoring.engine import Engine
from extract.workers import share_gpus

pytestmark = pytest.mark.slow

SMALL, GROUPED = "Qwen/Qwen2.5-0.5B-Instruct", "01-ai/Yi-6B-200K"
WIDE = "Leooyii/PI_32k_Slimpajama_1B"
ALL = ("full", "retrieval_with", "window_4096")


def scored(
    name: str, card: Card, folder: Path, *conditions: str, tokens: int = LONGEST
) -> tuple[Meter, Engine]:
    """Score one document of this many tokens on a card."""
    spec = locked_problem().model(name)
    with fake_gpu(card) as meter:
        engine = Engine(build(spec, folder))
        meter.reset()
        for requests in calls(spec, conditions, tokens).values():
            engine.score(requests)
        assert engine.attention  # asked for where the card is
    return meter, engine


def planned(name: str, longest: int = LONGEST) -> Footprint:
    spec = locked_problem().model(name)
    assert spec.shape is not None and spec.parameters is not None
    return footprint(
        spec, ModelSize(spec.parameters, spec.shape), dtype="bfloat16", device="cuda",
        longest=longest, suffix_tokens=SUFFIX_TOKENS,
    )  # fmt: skip


@pytest.mark.parametrize(("card", "kernel"), [(H100, "cudnn"), (A100_40, "flash")])
def test_texts_and_windows_take_a_fused_kernel_and_no_square_mask_is_made(
    card: Card, kernel: str, tmp_path: Path
) -> None:
    meter, engine = scored(SMALL, card, tmp_path, *ALL)
    assert engine.attention == f"sdpa/{kernel}" and engine.prefixes == "shared"
    assert meter.books.attention[f"{kernel}, causal"] > 0
    assert meter.books.largest_mask_rows <= SUFFIX_TOKENS
    forms = {form for form in meter.books.attention if "mask" not in form}
    assert forms <= {f"{kernel}, causal", f"{kernel}, full"}


def test_the_host_waits_once_a_call_and_for_no_token(tmp_path: Path) -> None:
    meter, _ = scored(SMALL, H100, tmp_path, "full", "retrieval_with")
    assert sum(n for what, n in meter.books.waits.items() if "synchronize" in what) == 1
    # and for no position, mask or token on the way
    others = {what: n for what, n in meter.books.waits.items() if "synchronize" not in what}
    assert others == {}


@pytest.mark.parametrize("name", [SMALL, GROUPED, WIDE])
def test_the_plan_foresees_the_peak(name: str, tmp_path: Path) -> None:
    meter, _ = scored(name, H100, tmp_path, *ALL)
    total = planned(name).total
    assert 0.6 * total < meter.peak < 1.1 * total, f"{meter.peak / total:.2f}"
    assert meter.books.shortages == 0


@pytest.mark.parametrize(
    ("name", "card", "conditions", "tokens"),
    [
        (WIDE, A100_40, ALL, LONGEST),
        (WIDE, RTX_4090, ("full", "window_4096"), LONGEST),
        (GROUPED, RTX_4080, ("full", "window_4096"), LONGEST),
        (SMALL, RTX_4080, ALL, LONGEST),
    ],
)
def test_what_the_plan_lets_through_is_done_at_the_first_attempt(
    name: str, card: Card, conditions: tuple[str, ...], tokens: int, tmp_path: Path
) -> None:
    meter, _ = scored(name, card, tmp_path, *conditions, tokens=tokens)
    assert meter.books.shortages == 0


def test_a_cache_that_can_not_fit_is_refused_before_anything_runs(tmp_path: Path) -> None:
    """Llama-2-7B at 32k on 24 GB: 12.6 GiB of weights, 16.5 of cache; the text alone fits."""
    spec = locked_problem().model(WIDE)
    with fake_gpu(RTX_4090) as meter:
        engine = Engine(build(spec, tmp_path))
        meter.reset()
        (requests,) = calls(spec, ("full", "retrieval_with")).values()
        with pytest.raises(DoesNotFitError, match=r"KV cache of 32,\d+ tokens needs 16\.\d GiB"):
            engine.score(requests)
    assert meter.books.kernels == 0


def test_of_two_unequal_cards_both_take_what_fits_on_the_smaller() -> None:
    names = [SMALL, GROUPED, WIDE]
    needed: dict[str, int | None] = {name: planned(name).reserved for name in names}
    found = share_gpus([RTX_4090.memory, H100.memory], needed)
    assert found.models == (SMALL, GROUPED) and found.spread == (WIDE,)
