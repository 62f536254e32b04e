"""Access to whole parameters and optimizer states by name under every strategy, for checkpoints and resharding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.placement_types import _StridedShard

from .gradients import SHARDS, local_of, sharding_groups
from .layout import Layout
from .stages import Stages

VALUES = "values"
GRADIENT = "grad"
# The optimizer's state with the gradients that a delayed update applies in the next step.
PENDING = "pending_grad"
# Reorders a whole tensor from the model's order to this run's order, or back.
Reorder = Callable[[Tensor], Tensor]


class States:
    """Reads and writes the tensors of a run on this rank. Names are those of the whole model's parameters."""

    def __init__(
        self, stages: Stages, layout: Layout, parameters: dict[str, nn.Parameter], optimizer: Any, state_names: list[str]
    ) -> None:
        self.stages = stages
        self.layout = layout
        self.parameters = parameters
        self.optimizer = optimizer
        self.state_names = state_names
        # By tensor name, two functions: from the order of a whole tensor in the model to its order in this run, and back.
        self.orders: dict[str, tuple[Reorder, Reorder]] = {}

    def keys(self, states: list[str]) -> list[tuple[str, str]]:
        """Returns the name and the state of each tensor, in the model's order; values come first."""
        found = [(name, VALUES) for name in self.stages.shapes if VALUES in states]
        trained = [name for name in self.stages.shapes if name not in self.stages.frozen]
        return found + [(name, state) for name in trained for state in states if state != VALUES]

    def whole(self, name: str, state: str) -> Tensor:
        """Returns a whole tensor on every rank. Every rank of the run must call this method."""
        layout = self.layout
        owner = self.stages.owners[name]
        if name in self.parameters and owner == layout.pp_rank:
            value = self._gather(name, state).contiguous()
        else:
            value = torch.empty(self.stages.shapes[name], device=layout.world.device)
        if name in self.stages.expert_owners:
            dist.broadcast(value, dist.get_global_rank(layout.ep_group, self.stages.expert_owners[name]), group=layout.ep_group)
        if layout.pp > 1:
            dist.broadcast(value, layout.rank_of_stage(owner), group=layout.pp_group)
        return self.orders[name][1](value) if name in self.orders else value

    def put(self, name: str, state: str, value: Tensor) -> None:
        """Copies this rank's part of a whole tensor into the run."""
        if name not in self.parameters:
            return
        if name in self.orders:
            value = self.orders[name][0](value)
        with torch.no_grad():
            self._place(name, state, value)

    def _gather(self, name: str, state: str) -> Tensor:
        # Offloaded tensors are on the host, but groups of GPUs communicate only tensors on GPUs.
        tensor = self._tensor(name, state).detach().to(self.layout.world.device)
        if not isinstance(tensor, DTensor):
            return tensor
        if not any(isinstance(each, _StridedShard) for each in tensor.placements):
            return tensor.full_tensor()
        whole = torch.zeros(tensor.shape, device=self.layout.world.device)
        local_part(whole, tensor).copy_(tensor.to_local())
        return added(whole, sharding_groups(tensor))

    def _place(self, name: str, state: str, value: Tensor) -> None:
        tensor = self._tensor(name, state)
        if isinstance(tensor, DTensor):
            tensor.to_local().copy_(local_part(value, tensor))
        else:
            tensor.copy_(value)

    def _tensor(self, name: str, state: str) -> Tensor:
        parameter = self.parameters[name]
        if state == GRADIENT:
            return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        return parameter if state == VALUES else self._states_of(parameter)[state]

    def _states_of(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        """Returns the optimizer's states of a parameter. Before the optimizer's first step, this method makes them, as zeros."""
        found: dict[str, Tensor] = self.optimizer.state[parameter]
        for state in self.state_names:
            if found.get(state) is None:
                found[state] = torch.zeros_like(parameter, memory_format=torch.preserve_format).detach()
        if "exp_avg" in self.state_names:
            # Fused kernels read the count on the parameter's device.
            device = local_of(parameter).device if self.optimizer.defaults["fused"] else None
            found.setdefault("step", torch.tensor(0.0, device=device))
        return found

    def optimizer_states(self, name: str) -> dict[str, Tensor]:
        """Returns the optimizer's states of this rank's part of a parameter; a change of the dict changes the optimizer's states."""
        return self._states_of(self.parameters[name])

    def is_updated_here(self, name: str) -> bool:
        """Whether this rank's optimizer updates its part of a parameter."""
        return True

    def local_pairs(self, old: Any, name: str, with_states: bool) -> list[tuple[Tensor, Tensor]]:
        """
        Returns pairs of tensors: this rank's part of a parameter or of one of its optimizer states, and the same part in `old`,
        the states of a run with the same layout.
        """
        parameter, other = self.parameters[name], old.parameters[name]
        return [(parameter, other), *(self._state_pairs(old, parameter, other) if with_states else ())]

    def _state_pairs(self, old: Any, parameter: nn.Parameter, other: nn.Parameter) -> list[tuple[Tensor, Tensor]]:
        own, others = self._states_of(parameter), old._states_of(other)
        return [(own[state], others[state]) for state in self.state_names]

    def set_steps(self, steps: int, left_out: dict[str, int]) -> None:
        """Sets the optimizer's number of steps. `left_out` has the number of steps that left a parameter out, by its name."""
        for name in self.parameters:
            if name not in self.stages.frozen:
                self._set_step(self.parameters[name], steps - left_out.get(name, 0))

    def _set_step(self, parameter: nn.Parameter, steps: int) -> None:
        if "exp_avg" in self.state_names:
            self._states_of(parameter)["step"].fill_(steps)


class ZeroStates(States):
    """States of a ZeroRedundancyOptimizer: one rank has all states of a parameter."""

    def _gather(self, name: str, state: str) -> Tensor:
        if state in (VALUES, GRADIENT):
            return super()._gather(name, state)
        owner = self._owner(name)
        is_own = owner == self.layout.dp_rank
        value = self._tensor(name, state) if is_own else torch.empty_like(self.parameters[name]).detach()
        source = dist.get_global_rank(self.layout.dp_group, owner)
        dist.broadcast(value, source, group=self.layout.dp_group)
        return value

    def _place(self, name: str, state: str, value: Tensor) -> None:
        if state == VALUES or self.is_updated_here(name):
            super()._place(name, state, value)

    def _states_of(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        outer, self.optimizer = self.optimizer, self.optimizer.optim
        try:
            return super()._states_of(parameter)
        finally:
            self.optimizer = outer

    def local_pairs(self, old: Any, name: str, with_states: bool) -> list[tuple[Tensor, Tensor]]:
        return super().local_pairs(old, name, with_states and self.is_updated_here(name))

    def is_updated_here(self, name: str) -> bool:
        return self._owner(name) == self.layout.dp_rank

    def _set_step(self, parameter: nn.Parameter, steps: int) -> None:
        if self.optimizer._param_to_rank[parameter] == self.layout.dp_rank:
            super()._set_step(parameter, steps)

    def _owner(self, name: str) -> int:
        return int(self.optimizer._param_to_rank[self.parameters[name]])


def added(parts: Tensor, groups: list[dist.ProcessGroup]) -> Tensor:
    """Sums float32 tensors in which each rank has some elements, else zeros. It adds the bits as integers, which preserves -0."""
    bits = parts.view(torch.int32)
    for group in groups:
        dist.all_reduce(bits, group=group)
    return parts


def local_part(value: Tensor, like: DTensor) -> Tensor:
    """Returns a view of this rank's part of a whole tensor."""
    mesh = like.device_mesh
    coordinate = mesh.get_coordinate() or [0] * mesh.ndim
    # A strided shard is cut after the shard of a later axis of the mesh.
    order = sorted(enumerate(like.placements), key=lambda item: isinstance(item[1], _StridedShard))
    for axis, placement in order:
        if not isinstance(placement, SHARDS):
            continue
        parts = value.chunk(mesh.size(axis), dim=placement.dim)
        empty = value.narrow(placement.dim, 0, 0)
        value = parts[coordinate[axis]] if coordinate[axis] < len(parts) else empty
    return value
