"""FSDP2: applies `fully_shard` to every unit."""

from __future__ import annotations

import contextlib
import math
from typing import Any

from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from .errors import Json
from .layout import Layout
from .moe import Experts, FeedForward
from .stages import Stages
from .strategy import Strategy, wrapped_modules


class FullyShard(Strategy):
    """Parameters, gradients and optimizer states are sharded; a unit's parameters are gathered while it runs."""

    def __init__(self, stages: Stages, layout: Layout, config: Json) -> None:
        super().__init__(stages, layout, config)
        self.offload.require_whole(True)
        parallel = config["parallel"]
        options: Json = {"mesh": layout.shard_mesh, "mp_policy": self._policy(), **self.offload.fully_shard()}
        reshard = parallel["reshardAfterForward"]
        if reshard is None and self.name in ("SHARD_GRAD_OP", "_HYBRID_SHARD_ZERO2"):
            reshard = False
        if reshard is not None:
            options["reshard_after_forward"] = reshard
        for part in self.parts:
            experts = [module for module in part.modules() if layout.ep > 1 and isinstance(module, Experts)]
            divided = {module for each in experts for module in each.modules()}
            units = wrapped_modules(stages, part, parallel["wrap"])
            # Experts and the unit around them are sharded over different ranks, so experts are always separate units.
            for module in [*[each for each in units if each in divided], *(experts if parallel["wrap"] != "moe" else [])]:
                fully_shard(module, **{**options, "mesh": layout.expert_mesh})
            for module in [*[each for each in units if each not in divided], part]:
                fully_shard(module, **options)

    def _policy(self) -> MixedPrecisionPolicy:
        precision = self.precision
        return MixedPrecisionPolicy(precision.param, precision.reduce, None, precision.cast_inputs)

    @contextlib.contextmanager
    def pass_context(self, is_last: bool) -> Any:
        root: Any
        for root in self.parts:
            root.set_requires_gradient_sync(is_last or not self.is_local(False))
            root.set_is_last_backward(is_last)
        yield

    def rest(self) -> None:
        for part in self.parts:
            for module in part.modules():
                if isinstance(module, FSDPModule):
                    module.reshard()

    def units(self) -> list[Json]:
        facts = []
        for part in self.parts:
            for name, module in part.named_modules():
                if not isinstance(module, FSDPModule):
                    continue
                group = module._get_fsdp_state()._fsdp_param_group
                own = [] if group is None else group.fsdp_params
                replicate = self.layout.replicate
                shards = (self.layout.edp_group.size() if isinstance(module, (Experts, FeedForward)) else self.layout.dp) // replicate
                sizes = [math.prod(each._orig_size) for each in own]
                padded = [shards * each.padded_sharded_param_size.numel() for each in own]
                sized = {"numParams": sum(sizes), "padding": sum(padded) - sum(sizes), "numShards": shards}
                facts.append({"module": name, "strategy": self.name, **sized})
        return facts
