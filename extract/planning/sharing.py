"""Use of one machine's GPUs: a worker on each, or one model over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from extract.planning.devices import free_gpus
from extract.planning.tables import Plan


@dataclass(frozen=True)
class Sharing:
    """Number of parallel processes, and their models.

    Attributes:
        workers: processes; 1 is this one alone.
        each: for each worker the models that it runs, a copy on its GPU; None where all workers
            run all that are selected.
        spread: models too large for any one GPU, run over all of them when the workers are done.
        sentence: the same for the reader; empty where there is nothing to decide.
    """

    workers: int
    each: tuple[tuple[str, ...], ...] | None = None
    spread: tuple[str, ...] = ()
    sentence: str = ""


def share_gpus(
    gpus: Sequence[int], needed: Mapping[str, int | None], asked: int | None = None
) -> Sharing:
    """One worker per GPU for the models that fit on it; the others afterwards, over all GPUs.

    Args:
        gpus: free memory of each GPU in bytes.
        needed: predicted peak of each model with work left, in bytes; None where its size is not
            known, and then it counts as too large.
        asked: number of workers, where the user gave one.
    """
    known = {name: peak for name, peak in needed.items() if peak is not None}
    fitting = [tuple(name for name, peak in known.items() if peak <= free) for free in gpus]
    spread = tuple(name for name in needed if not any(name in names for names in fitting))
    workers = asked or len(gpus)
    if len(gpus) < 2 or workers == 1 or not any(fitting):
        alone = "; one model at a time over all of them" if len(gpus) > 1 and needed else ""
        return Sharing(asked or 1, sentence=f"{len(gpus)} GPUs{alone}." if alone else "")
    sentence = f"{len(gpus)} GPUs; {workers} workers, each with a copy of the model on one GPU"
    most = max(fitting, key=len)
    for number, names in enumerate(fitting):
        if left_out := [name for name in most if name not in names]:
            sentence += (
                f"; GPU {number}, with {gpus[number] / 2**30:.0f} GiB free, leaves out "
                f"{', '.join(left_out)}"
            )
    if spread:
        sentence += (
            f"; afterwards, over all GPUs, since one has at most {max(gpus) / 2**30:.0f} GiB free: "
            f"{', '.join(spread)}"
        )
    each = tuple(fitting[number % len(gpus)] for number in range(workers))
    return Sharing(workers, each, spread, f"{sentence}.")


def sharing_of(plan: Plan, asked_device: str, device: str, workers: int | None) -> Sharing:
    """The decision for a plan on this machine.

    Args:
        plan: predicts memory, and has the models with work left.
        asked_device: as on the command line; only `auto` leaves the decision to us.
        device: what it was resolved to.
        workers: as on the command line.
    """
    if asked_device != "auto" or device != "auto-map":
        return Sharing(workers or 1)
    needed = {
        model.spec.full_id: model.memory.reserved if model.memory else None
        for model in plan.models
        if model.left > 0
    }
    return share_gpus(free_gpus(device), needed, workers)
