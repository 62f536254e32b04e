"""Expert parallelism: each rank of the axis ep has some experts of every layer, and rows travel to the ranks of their experts."""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from .errors import Json
from .exchange import exchanged, travelled
from .layout import Layout
from .moe import Apply, Experts, mixtures_in


def keep_own_experts(model: nn.Module, layout: Layout, placement: Json | None) -> dict[str, int]:
    """
    Removes the experts of other ranks. Without a placement of a layer, each rank has an equal, consecutive part of its experts.
    Returns, for each parameter of an expert, the rank (of axis ep) that has the expert.
    """
    owners: dict[str, int] = {}
    layers = [(name, each) for name, each in model.named_modules() if isinstance(each, Experts) and layout.ep > 1]
    for layer, experts in layers:
        given = (placement or {}).get(layer.rpartition(".")[0])
        per_rank = len(experts) // layout.ep
        places = [list(range(i * per_rank, (i + 1) * per_rank)) for i in range(layout.ep)] if given is None else given["experts"]
        for owner, indices in enumerate(places):
            for index in indices:
                owners.update((f"{layer}.{index}.{name}", owner) for name, _ in experts[str(index)].named_parameters())
        own = {str(index): experts[str(index)] for index in places[layout.ep_rank]}
        experts.clear()
        experts.update(own)
        experts.placed = None if given is None else [index for each in places for index in each]
    return owners


def exchange_rows(model: nn.Module, group: ProcessGroup) -> None:
    """Makes the rows of a model's layers travel to the ranks that have their experts."""
    for mixture in mixtures_in([model]):
        placed = mixture.experts.placed
        mixture.exchange = functools.partial(_applied_elsewhere, group) if placed is None else functools.partial(_applied_there, group, placed)


def _applied_there(group: ProcessGroup, placed: list[int], rows: Tensor, counts: Tensor, apply: Apply) -> Tensor:
    """Brings rows into the order in which ranks have the experts, and back."""
    order = torch.tensor(placed, device=rows.device)
    by_rank = order.argsort().repeat_interleave(counts).argsort(stable=True)
    return _applied_elsewhere(group, rows[by_rank], counts[order], apply)[by_rank.argsort()]


def _applied_elsewhere(group: ProcessGroup, rows: Tensor, counts: Tensor, apply: Apply) -> Tensor:
    """
    Sends rows to their experts, and returns the outputs. A rank's loss is the mean over its own tokens, and gradients are
    averaged over all ranks. But an expert already has the sum of the gradients of the ranks' tokens. Backward therefore divides
    gradients that enter the experts by the number of ranks, and multiplies gradients that leave the experts by this number.
    Source: as src/sharding/experts/expert-exchange.ts.
    """
    ranks = group.size()
    leaving = counts.view(ranks, -1).to(torch.int32)
    arriving = travelled(leaving, group, None, None)
    sent, received = leaving.sum(1).tolist(), arriving.sum(1).tolist()
    arrived = exchanged(rows, group, sent, received, float(ranks))
    # Rows arrive in the order of ranks; experts need them in the order of experts.
    experts = torch.arange(arriving.shape[1], device=rows.device).repeat(ranks).repeat_interleave(arriving.flatten())
    order = experts.argsort(stable=True)
    outputs = apply(arrived[order], arriving.sum(0).tolist())
    return exchanged(outputs[order.argsort()], group, received, sent, 1 / ranks)
