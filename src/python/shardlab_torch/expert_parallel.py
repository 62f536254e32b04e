"""Expert parallelism: each rank of the axis ep has some experts of every layer, and rows travel to the ranks of their experts."""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn
from torch.distributed import ProcessGroup

from .exchange import exchanged, travelled
from .layout import Layout
from .moe import Apply, Experts, mixtures_in


def keep_own_experts(model: nn.Module, layout: Layout) -> dict[str, int]:
    """Removes the experts of other ranks. Returns, for each parameter of an expert, the rank (of axis ep) that has the expert."""
    owners: dict[str, int] = {}
    layers = [(name, each) for name, each in model.named_modules() if isinstance(each, Experts) and layout.ep > 1]
    for layer, experts in layers:
        per_rank = len(experts) // layout.ep
        for index in list(experts):
            owner = int(index) // per_rank
            owners.update((f"{layer}.{index}.{name}", owner) for name, _ in experts[index].named_parameters())
            if owner != layout.ep_rank:
                del experts[index]
    return owners


def exchange_rows(model: nn.Module, group: ProcessGroup) -> None:
    """Makes the rows of a model's layers travel to the ranks that have their experts."""
    for mixture in mixtures_in([model]):
        mixture.exchange = functools.partial(_applied_elsewhere, group)


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
