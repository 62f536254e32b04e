"""DeepSpeed's ZeRO: its engine divides optimizer states (1), gradients (2) and parameters (3) into flat partitions."""

from __future__ import annotations

import logging
import math
import os
import warnings
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from .errors import Json, ShardlabError
from .layout import Layout
from .precision import Precision
from .scaling import Unscaled
from .stages import Stages
from .states import VALUES, States
from .strategy import Strategy

STAGES = {"ZERO_1": 1, "ZERO_2": 2, "FULL_SHARD": 3}
# DeepSpeed's names of types.
_TYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def import_deepspeed() -> Any:
    """Imports DeepSpeed for the devices of the ranks. Raises ShardlabError if it is not installed."""
    is_cpu = not torch.cuda.is_available()
    if is_cpu:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    try:
        deepspeed: Any = import_module("deepspeed")
    except ImportError as error:
        raise ShardlabError("CONFIG", f"framework 'deepspeed': {error}; run pip install deepspeed in the ranks' Python") from None
    # DeepSpeed would compile its shared-memory all-reduce from C++ at the first use; gloo does the same work.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    if is_cpu:
        # DeepSpeed asks for fast kernels of float16. PyTorch has slower ones on every CPU.
        deepspeed.accelerator.get_accelerator().is_fp16_supported = lambda: True
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

    def __init__(self, stages: Stages, layout: Layout, config: Json) -> None:
        super().__init__(stages, layout, config)
        self._scaling: Json | None = None

    def scale_losses(self, settings: Json) -> None:
        self._scaling = settings

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
                **self.offload.deepspeed(STAGES[self.name]),
            },
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
            "steps_per_print": 10**9,
            **precision_settings(self.precision, self._scaling),
        }
        self._engine, self._optimizer, _, _ = deepspeed.initialize(
            model=self.parts[0],
            optimizer=make(groups, **options),
            config=settings,
            dist_init_required=False,
            mpu=_Groups(self.layout),
        )
        self.modules = [self._engine]
        self._cast_inputs()
        if self._scaling is not None:
            self.scaler = EngineScaler(self._optimizer)
        return self._optimizer  # type: ignore[no-any-return]

    def _cast_inputs(self) -> None:
        """Makes the model cast its inputs to the type of its parameters, as FSDP's policy does; DeepSpeed leaves them as they are."""
        dtype = self.precision.param
        if dtype is None or not self.precision.cast_inputs:
            return

        def cast(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            is_float = [isinstance(each, Tensor) and each.is_floating_point() for each in inputs]
            return tuple(each.to(dtype) if flag else each for each, flag in zip(inputs, is_float, strict=True))

        self.parts[0].register_forward_pre_hook(cast)

    def states(self, stages: Stages, optimizer: torch.optim.Optimizer, names: list[str]) -> States:
        return PartitionStates(stages, self.layout, self.parameters(), optimizer, names)

    def backward(self, loss: Tensor) -> None:
        # The loss was already divided by the number of microbatches.
        self._engine.backward(loss, scale_wrt_gas=False)
        if not self._engine.is_gradient_accumulation_boundary():
            self._engine.step()

    def clip(self, most: float | None, stages: Stages) -> float:
        return float("nan")  # the engine's step clips

    def update(self, optimizer: torch.optim.Optimizer, norm: float) -> tuple[float, bool]:
        self._engine.step()
        # DeepSpeed leaves out an update whose gradients are not finite, also without a scaler.
        is_done = not self._optimizer.overflow
        return float(self._engine.get_global_grad_norm()) if is_done else float("inf"), is_done

    def dispose(self) -> None:
        self._engine.destroy()


def precision_settings(precision: Precision, scaling: Json | None) -> Json:
    """
    Returns DeepSpeed's settings of types. The optimizer's partitions are float32. Sums of gradients are float32 too, unless they
    keep the type in which they are sent; DeepSpeed's default is the type of parameters. `scaling`: the settings of a scaler.
    """
    settings: Json = {}
    if precision.reduce is not None:
        settings["communication_data_type"] = _TYPES[precision.reduce]
    if precision.param is None or precision.reduce is None or precision.param == torch.float32:
        return settings
    sums = _TYPES[precision.reduce] if precision.keeps_low_grads else "fp32"
    settings["data_types"] = {"grad_accum_dtype": sums, "buffer_dtype": "fp32"}
    if precision.param == torch.bfloat16:
        # By default, DeepSpeed skips updates also without a scaler.
        settings["bf16"] = {"enabled": True, "check_grad_overflow": False}
    elif scaling is None:
        settings["fp16"] = {"enabled": True, "loss_scale": 1.0}
    else:
        settings["fp16"] = {
            "enabled": True,
            "initial_scale_power": int(math.log2(scaling["initScale"])),
            "loss_scale_window": scaling["growthInterval"],
            # As PyTorch's scaler, it lowers the scale at each overflow. Unlike it, it fails if the scale would be below 1.
            "hysteresis": 1,
        }
    return settings


class EngineScaler(Unscaled):
    """The scaler in DeepSpeed's optimizer. The engine multiplies losses by its scale, so passes do not."""

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def state(self) -> Json | None:
        scaler = self._optimizer.loss_scaler
        return {"scale": float(scaler.cur_scale), "growthTracker": int(scaler.cur_iter - scaler.last_overflow_iter - 1)}

    def restore(self, state: Json) -> None:
        scaler = self._optimizer.loss_scaler
        scaler.cur_scale, scaler.cur_iter, scaler.last_overflow_iter = float(state["scale"]), int(state["growthTracker"]), -1


class PartitionStates(States):
    """States in DeepSpeed's partitions. Under ZeRO-1 and 2, the optimizer updates partitions of a copy of the parameters."""

    def _gather(self, name: str, state: str) -> Tensor:
        parts = _fragments()
        parameter = self.parameters[name]
        if state == VALUES:
            is_divided = hasattr(parameter, "ds_id") or parameter.dtype != torch.float32
            whole: Tensor = parts.safe_get_full_fp32_param(parameter) if is_divided else parameter.detach()
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
            if parameter.ds_status.name == "AVAILABLE":  # small parameters stay gathered between steps
                parameter.data.copy_(value)
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
        names = ("fp32_partitioned_groups_flat", "fp32_groups_flat_partition", "single_partition_of_fp32_groups")
        return list(next(filter(None, (getattr(self.optimizer, name, None) for name in names))))

    def _make_states(self) -> None:
        """Makes the states that the optimizer otherwise makes in its first step."""
        for flat in self._partitions():
            self._states_of(flat)
        link = getattr(self.optimizer, "_lazy_init_hp_params_optimizer_state", None)
        if link is not None and self.state_names:
            link()
