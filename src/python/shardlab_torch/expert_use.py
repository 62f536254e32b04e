"""Finds the experts that a step has used. As in engine wasm, the optimizer leaves out an expert without rows."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn

from .dit import DitExperts
from .layout import Layout
from .moe import mixtures_in
from .stages import Stages


class ExpertUse:
    """Counts the rows of each expert over all ranks, and for each parameter the steps in which its expert got no row."""

    def __init__(self, stages: Stages, layout: Layout, is_delayed: bool) -> None:
        self._stages = stages
        self._is_delayed = is_delayed
        # The parameters of experts that the last step has not used. A delayed update leaves them out in the next step.
        self._waiting: list[str] = []
        self._layout = layout
        self._mixtures = {index: mixture for index, block in stages.layers for mixture in mixtures_in([block])}
        self.steps_left_out: dict[str, int] = {}

    def leave_out_unused(self, parameters: dict[str, nn.Parameter]) -> list[str]:
        """
        Removes the gradients of unused experts, which are zeros. Returns the names of their parameters. Every rank must call this
        method after the step's backward.
        """
        prefixes = tuple(self._unused())
        unused = [name for name in self._stages.shapes if name.startswith(prefixes) and name not in self._stages.frozen]
        for name in unused:
            if name in parameters:
                parameters[name].grad = None
        return unused

    def count(self, unused: list[str]) -> None:
        """Counts an update; `unused` has the parameters of experts that its step has not used."""
        left_out = self._waiting if self._is_delayed else unused
        self._waiting = unused
        for name in left_out:
            self.steps_left_out[name] = self.steps_left_out.get(name, 0) + 1

    def restore(self, steps_left_out: dict[str, int], left_out_next: list[str]) -> None:
        """Continues from the counts of a checkpoint."""
        self.steps_left_out = steps_left_out
        self._waiting = left_out_next

    def take_from(self, old: ExpertUse) -> None:
        """Continues another run of the same ranks, whose counts this run has."""
        self._waiting = list(old._waiting)

    def _unused(self) -> Iterator[str]:
        """Yields the name prefixes of the parameters of experts that have not run in this step."""
        yield from (module.idle for module in self._stages.modules if isinstance(module, DitExperts))
        if not self._mixtures:
            return
        experts = next(iter(self._mixtures.values())).num_experts
        # Ranks of a pipeline have different layers. All ranks need all counts, because a checkpoint stores them.
        counts = torch.zeros(self._stages.num_layers, experts, dtype=torch.int32, device=self._layout.world.device)
        for index, mixture in self._mixtures.items():
            counts[index] = mixture.take_counts()
        if len(self._layout.ranks) > 1:
            dist.all_reduce(counts, group=self._layout.group)
        yield from (f"blocks.{layer}.moe.experts.{expert}." for layer, expert in (counts == 0).nonzero().tolist())
