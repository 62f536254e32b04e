"""DeepSpeed's ZeRO: its engine divides optimizer states (1), gradients (2) and parameters (3) into flat partitions."""

from __future__ import annotations

import logging
import os
import warnings
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from .errors import Json, ShardlabError
from .layout import Layout
from .stages import Stages
from .states import VALUES, States
from .strategy import Strategy

STAGES = {"ZERO_1": 1, "ZERO_2": 2, "FULL_SHARD": 3}


def import_deepspeed() -> Any:
    """Imports DeepSpeed for CPUs. Raises ShardlabError if it is not installed."""
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    try:
        deepspeed: Any = import_module("deepspeed")
    except ImportError as error:
        raise ShardlabError("CONFIG", f"framework 'deepspeed': {error}; run pip install deepspeed in the ranks' Python") from None
    # DeepSpeed would compile its shared-memory all-reduce from C++ at the first use; gloo does the same work.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.comm.comm.cdb = None  # forgets the groups of a failed epoch
    deepspeed.utils.logger.setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    return deepspeed


def _fragments() -> Any:
    """Returns DeepSpeed's functions that read and write whole tensors."""
    return import_module("deepspeed.utils")


class _Groups:
    """The groups of a run, with the methods that DeepSpeed calls. Source: the interface of Megatron-LM's mpu."""

    def __init__(self, layout: Layout) -> None:
        world = layout.world
        alone = world.make([world.rank], "mp")
        self.get_data_parallel_group = lambda: layout.dp_group
        self.get_data_parallel_world_size = lambda: layout.dp
        self.get_data_parallel_rank = lambda: layout.dp_rank
        self.get_model_parallel_group = lambda: alone
        self.get_model_parallel_world_size = lambda: 1
        self.get_model_parallel_rank = lambda: 0


class DeepSpeedZero(Strategy):
    """A model in DeepSpeed's engine, with an optimizer of PyTorch."""

    def make_optimizer(
        self, make: type[torch.optim.Optimizer], groups: list[Json], options: Json
    ) -> torch.optim.Optimizer:
        deepspeed = import_deepspeed()
        config = self.config
        settings = {
            "train_micro_batch_size_per_gpu": config["batch"],
            "gradient_accumulation_steps": config["accumulation"],
            "gradient_clipping": config["clipNorm"] or 0.0,
            "zero_optimization": {
                "stage": STAGES[self.name],
                "overlap_comm": False,
                "reduce_bucket_size": config["parallel"]["bucketBytes"] // 4,
            },
            "zero_allow_untested_optimizer": True,
            "steps_per_print": 10**9,
        }
        self._engine, optimizer, _, _ = deepspeed.initialize(
            model=self.parts[0],
            optimizer=make(groups, **options),
            config=settings,
            dist_init_required=False,
            mpu=_Groups(self.layout),
        )
        self.modules = [self._engine]
        return optimizer  # type: ignore[no-any-return]

    def states(self, stages: Stages, optimizer: torch.optim.Optimizer, names: list[str]) -> States:
        return PartitionStates(stages, self.layout, self.parameters(), optimizer, names)

    def backward(self, loss: Tensor) -> None:
        # The loss was already divided by the number of microbatches.
        self._engine.backward(loss, scale_wrt_gas=False)
        if not self._engine.is_gradient_accumulation_boundary():
            self._engine.step()

    def clip(self, most: float | None, stages: Stages) -> float:
        return float("nan")  # the engine's step clips

    def update(self, optimizer: torch.optim.Optimizer, norm: float) -> float:
        self._engine.step()
        return float(self._engine.get_global_grad_norm())

    def dispose(self) -> None:
        self._engine.destroy()


class PartitionStates(States):
    """States in DeepSpeed's partitions. Under ZeRO-1 and 2, the optimizer updates partitions of a copy of the parameters."""

    def _gather(self, name: str, state: str) -> Tensor:
        parts = _fragments()
        parameter = self.parameters[name]
        if state == VALUES:
            whole: Tensor = parts.safe_get_full_fp32_param(parameter) if hasattr(parameter, "ds_id") else parameter.detach()
        else:
            self._make_states()
            whole = parts.safe_get_full_optimizer_state(parameter, state).detach()
        return whole

    def _place(self, name: str, state: str, value: Tensor) -> None:
        parts = _fragments()
        parameter: Any = self.parameters[name]
        if state != VALUES:
            self._make_states()
        if not hasattr(parameter, "ds_id"):
            if state == VALUES:
                parameter.copy_(value)
                parts.safe_set_full_fp32_param(parameter, value)
            else:
                parts.safe_set_full_optimizer_state(parameter, value, state)
            return
        size = parameter.ds_tensor.numel()
        part = torch.zeros(size)  # the part of the last rank may have padding
        own = value.flatten()[size * self.layout.dp_rank : size * (self.layout.dp_rank + 1)]
        part[: own.numel()] = own
        if state == VALUES:
            parameter.ds_tensor.copy_(part)
            parts.safe_set_local_fp32_param(parameter, part)
        else:
            parts.safe_set_local_optimizer_state(parameter, part, state)

    def set_steps(self, steps: int, left_out: dict[str, int]) -> None:
        self._make_states()
        for flat in self._partitions():
            self._set_step(flat, steps)

    def local_pairs(self, old: Any, name: str, with_states: bool) -> list[tuple[Tensor, Tensor]]:
        own, other = ((getattr(each, "ds_tensor", each)) for each in (self.parameters[name], old.parameters[name]))
        pairs = [(own, other)]
        if name == next(iter(self.parameters)):  # partitions belong to many parameters, so they are returned only once
            for flat, old_flat in zip(self._partitions(), old._partitions(), strict=True):
                pairs += [(flat, old_flat), *(self._state_pairs(old, flat, old_flat) if with_states else ())]
        return pairs

    def _states_of(self, parameter: nn.Parameter) -> dict[str, Tensor]:
        outer, self.optimizer = self.optimizer, self.optimizer.optimizer
        try:
            return super()._states_of(parameter)
        finally:
            self.optimizer = outer

    def _set_step(self, parameter: nn.Parameter, steps: int) -> None:
        if "exp_avg" in self.state_names:
            self._states_of(parameter)["step"].fill_(steps)

    def _partitions(self) -> list[nn.Parameter]:
        optimizer = self.optimizer
        return list(getattr(optimizer, "fp32_partitioned_groups_flat", None) or optimizer.single_partition_of_fp32_groups)

    def _make_states(self) -> None:
        """Makes the states that the optimizer otherwise makes in its first step."""
        for flat in self._partitions():
            self._states_of(flat)
        link = getattr(self.optimizer, "_lazy_init_hp_params_optimizer_state", None)
        if link is not None and self.state_names:
            link()
