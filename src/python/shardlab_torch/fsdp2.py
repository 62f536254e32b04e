"""FSDP2: applies `fully_shard` to every unit."""

from __future__ import annotations

import contextlib
import math
from typing import Any

from torch import nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from .errors import Json
from .layout import Layout
from .moe import Experts
from .stages import Stages
from .strategy import Strategy
from .unit_plan import UnitPlan


class FullyShard(Strategy):
    """Parameters, gradients and optimizer states are sharded; a unit's parameters are gathered while it runs."""

    def __init__(self, stages: Stages, layout: Layout, config: Json) -> None:
        super().__init__(stages, layout, config)
        self.offload.require_whole(True)
        self._plans = [UnitPlan(stages, part, config["parallel"]) for part in self.parts]
        # The strategy of each unit.
        self._strategies: dict[nn.Module, str] = {}
        for part, plan in zip(self.parts, self._plans, strict=True):
            experts = [module for module in part.modules() if layout.ep > 1 and isinstance(module, Experts)]
            divided = {module for each in experts for module in each.modules()}
            # Experts and the unit around them are sharded over different ranks, so experts are always separate units.
            inner = [each for each in plan.units if each in divided]
            inner += [each for each in experts if each not in inner and not set(each.children()) <= set(inner)]
            for module in [*inner, *[each for each in plan.units if each not in divided], part]:
                self._shard(module, plan, module in divided)

    def _shard(self, module: nn.Module, plan: UnitPlan, is_expert: bool) -> None:
        strategy = self._strategies[module] = plan.strategy_of(module)
        reshard = self.config["parallel"]["reshardAfterForward"]
        if strategy == "NO_SHARD" or (reshard is None and strategy in ("SHARD_GRAD_OP", "_HYBRID_SHARD_ZERO2")):
            reshard = False
        options: Json = self.offload.fully_shard()
        if reshard is not None:
            options["reshard_after_forward"] = reshard
        mesh = self.layout.mesh_of(strategy, is_expert)
        fully_shard(module, mesh=mesh, mp_policy=self._policy(), ignored_params=plan.ignored_parameters, **options)

    def _policy(self) -> MixedPrecisionPolicy:
        precision = self.precision
        return MixedPrecisionPolicy(precision.param, precision.reduce, None, precision.cast_inputs)

    @contextlib.contextmanager
    def pass_context(self, is_last: bool) -> Any:
        for module, strategy in self._strategies.items():
            unit: Any = module
            unit.set_requires_gradient_sync(is_last or not self.is_local(strategy == "NO_SHARD"), recurse=False)
        root: Any
        for root in self.parts:
            root.set_is_last_backward(is_last)
        yield

    def rest(self) -> None:
        for part in self.parts:
            for module in part.modules():
                if isinstance(module, FSDPModule):
                    module.reshard()

    def units(self) -> list[Json]:
        facts = []
        for part, plan in zip(self.parts, self._plans, strict=True):
            for name, module in part.named_modules():
                if module not in self._strategies:
                    continue
                group = module._get_fsdp_state()._fsdp_param_group
                own = [] if group is None else group.fsdp_params
                shards = 1 if group is None else group.mesh_info.shard_mesh_size
                sizes = [math.prod(each._orig_size) for each in own]
                padded = [shards * each.padded_sharded_param_size.numel() for each in own]
                sized = {"numParams": sum(sizes), "padding": sum(padded) - sum(sizes), "numShards": shards}
                facts.append({"module": name, "strategy": self._strategies[module], **sized})
            facts += plan.ignored_units()
        return facts
