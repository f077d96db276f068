"""How one machine's GPUs are shared: a worker on each, or one model over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from extract.planning.tables import Plan


@dataclass(frozen=True)
class Sharing:
    """How many processes work side by side, and on which models.

    Attributes:
        workers: processes; 1 is this one alone.
        each: models that workers run, a copy on one GPU each; None for all that are selected.
        spread: models too large for one GPU, run over all of them when the workers are done.
        sentence: the same for the reader; empty where there is nothing to decide.
    """

    workers: int
    each: tuple[str, ...] | None = None
    spread: tuple[str, ...] = ()
    sentence: str = ""


def share_gpus(
    gpus: Sequence[int], needed: Mapping[str, int | None], asked: int | None = None
) -> Sharing:
    """One worker per GPU for the models that fit on one; the others afterwards, over all GPUs.

    Args:
        gpus: memory of each GPU in bytes.
        needed: predicted peak of each model with work left, in bytes; None where its size is not
            known, and then it counts as too large.
        asked: number of workers, where the user gave one.
    """
    smallest = min(gpus, default=0)
    fitting = tuple(name for name, peak in needed.items() if peak is not None and peak <= smallest)
    spread = tuple(name for name in needed if name not in fitting)
    workers = asked or len(gpus)
    if len(gpus) < 2 or workers == 1 or not fitting:
        alone = "; one model at a time over all of them" if len(gpus) > 1 and needed else ""
        return Sharing(asked or 1, sentence=f"{len(gpus)} GPUs{alone}." if alone else "")
    sentence = f"{len(gpus)} GPUs; {workers} workers, each with a copy of the model on one GPU"
    if spread:
        sentence += (
            f"; afterwards, over all GPUs, since one has {smallest / 2**30:.0f} GiB: "
            f"{', '.join(spread)}"
        )
    return Sharing(workers, fitting, spread, f"{sentence}.")


def sharing_of(plan: Plan, asked_device: str, device: str, workers: int | None) -> Sharing:
    """The decision for a plan on this machine.

    Args:
        plan: predicts memory, and says which models have work left.
        asked_device: as on the command line; only `auto` leaves the decision to us.
        device: what it was resolved to.
        workers: as on the command line.
    """
    if asked_device != "auto" or device != "auto-map":
        return Sharing(workers or 1)
    import torch

    gpus = [
        int(torch.cuda.get_device_properties(number).total_memory)
        for number in range(torch.cuda.device_count())
    ]
    needed = {
        model.spec.full_id: model.memory.total if model.memory else None
        for model in plan.models
        if model.left > 0
    }
    return share_gpus(gpus, needed, workers)
