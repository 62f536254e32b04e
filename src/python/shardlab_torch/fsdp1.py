"""FSDP1: `FullyShardedDataParallel`, whose units have one flat parameter each."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel as FSDP, MixedPrecision, ShardingStrategy
from torch.distributed.fsdp.wrap import CustomPolicy

from .errors import Json
from .layout import Layout
from .stages import Stages
from .states import VALUES, States, added
from .strategy import Strategy
from .unit_plan import UnitPlan

_PREFIX = "_fsdp_wrapped_module."


class FullyShardedDataParallel(Strategy):
    """Each unit's parameters are one vector, and each rank has a part of this vector."""

    def __init__(self, stages: Stages, layout: Layout, config: Json) -> None:
        super().__init__(stages, layout, config)
        self.offload.require_whole(True)
        (model,) = self.parts
        parallel = config["parallel"]
        self._plan = plan = UnitPlan(stages, model, parallel)
        precision = self.precision
        mixed = MixedPrecision(
            precision.param,
            precision.reduce,
            keep_low_precision_grads=precision.keeps_low_grads,
            cast_forward_inputs=precision.cast_inputs,
        )
        prefetch = parallel["backwardPrefetch"]
        is_hybrid = layout.replicate > 1
        options: Json = {"device_mesh": layout.shard_mesh} if is_hybrid else {"process_group": layout.dp_group}
        # Without replicas, a hybrid strategy shards over all ranks.
        alone = {} if is_hybrid else {"HYBRID_SHARD": "FULL_SHARD", "_HYBRID_SHARD_ZERO2": "SHARD_GRAD_OP"}

        def strategy_of(module: nn.Module) -> ShardingStrategy:
            name = plan.strategy_of(module)
            return ShardingStrategy[alone.get(name, name)]

        units = set(plan.units)
        wrapped = FSDP(
            model,
            sharding_strategy=strategy_of(model),
            auto_wrap_policy=CustomPolicy(lambda module: {"sharding_strategy": strategy_of(module)} if module in units else False),
            ignored_modules=plan.ignored,
            mixed_precision=mixed if precision.is_mixed else None,
            backward_prefetch=None if prefetch is None else BackwardPrefetch[prefetch],
            forward_prefetch=parallel["forwardPrefetch"],
            limit_all_gathers=parallel["limitAllGathers"],
            device_id=layout.world.device,
            use_orig_params=True,
            **options,
            **self.offload.fsdp1(config["accumulation"] > 1 and not self.is_local(False)),
        )
        self.parts = self.modules = [wrapped]

    def parameters(self) -> dict[str, nn.Parameter]:
        return {name.replace(_PREFIX, ""): parameter for name, parameter in super().parameters().items()}

    def pass_context(self, is_last: bool) -> contextlib.AbstractContextManager[Any]:
        root: Any = self.modules[0]
        return root.no_sync() if not is_last and self.is_local(False) else contextlib.nullcontext()

    def widen_gradients(self) -> None:
        for parameter in super().parameters().values():
            if parameter.grad is not None and parameter.grad.dtype != parameter.dtype:
                parameter.grad = parameter.grad.to(parameter.dtype)

    def clip(self, most: float | None, stages: Stages) -> float:
        root: Any = self.modules[0]
        return float(root.clip_grad_norm_(float("inf") if most is None else most))

    def states(self, stages: Stages, optimizer: torch.optim.Optimizer, names: list[str]) -> States:
        return FlatStates(stages, self.layout, self.parameters(), optimizer, names, self.modules[0])

    def rest(self) -> None:
        for unit in FSDP.fsdp_modules(self.modules[0]):
            handle: Any = unit._handle
            has_run = handle is not None and hasattr(handle.flat_param, "_full_param_padded")
            if has_run and handle.uses_sharded_strategy and not handle.needs_unshard():
                handle.reshard(True)

    def units(self) -> list[Json]:
        facts = []
        for name, module in self.modules[0].named_modules():
            if isinstance(module, FSDP):
                strategy = self._plan.strategy_of(module.module)
                shards = 1 if strategy == "NO_SHARD" else self.layout.dp // self.layout.replicate
                flat: Any = None if module._handle is None else module._handle.flat_param
                sizes = [] if flat is None else [each.numel() for each in flat._shapes]
                held = 0 if flat is None else shards * flat._sharded_size.numel()
                clean = f"{name}.".replace(_PREFIX, "").rstrip(".")
                sized = {"numParams": sum(sizes), "padding": max(0, held - sum(sizes)), "numShards": shards}
                facts.append({"module": clean, "strategy": strategy, **sized})
        return facts + self._plan.ignored_units()


class FlatStates(States):
    """States of flat parameters: a rank has a range of the elements of each flattened parameter; the range may be empty."""

    def __init__(
        self, stages: Stages, layout: Layout, parameters: dict[str, nn.Parameter], optimizer: Any, names: list[str], root: nn.Module
    ) -> None:
        super().__init__(stages, layout, parameters, optimizer, names)
        self._ranges: dict[str, tuple[int, int]] = {}
        for path, module in root.named_modules():
            handle: Any = module._handle if isinstance(module, FSDP) else None
            if handle is None or not handle.uses_sharded_strategy:
                continue
            self._group = handle.process_group
            prefix = f"{path}.".replace(_PREFIX, "").lstrip(".")
            for name, info in zip(handle.flat_param._fqns, handle.flat_param._shard_param_infos, strict=True):
                start, end = info.intra_param_start_idx, info.intra_param_end_idx
                self._ranges[prefix + name] = (start, end + 1) if info.in_shard else (0, 0)

    def _gather(self, name: str, state: str) -> Tensor:
        tensor = self._tensor(name, state).detach()
        if name not in self._ranges:
            return tensor
        start, end = self._ranges[name]
        shape = self.stages.shapes[name]
        whole = torch.zeros(shape.numel(), device=self.layout.world.device)
        whole[start:end] = tensor.flatten()
        return added(whole, [self._group]).view(shape)

    def _place(self, name: str, state: str, value: Tensor) -> None:
        tensor = self._tensor(name, state)
        if name not in self._ranges:
            tensor.copy_(value)
            return
        start, end = self._ranges[name]
        if state == VALUES:
            tensor = tensor.data
        tensor.copy_(value.flatten()[start:end].view_as(tensor))
