"""The common code of the strategies of data parallelism, and replication by DistributedDataParallel."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from .comm_hooks import register_comm_hook
from .dit import experts_of
from .errors import Json, ShardlabError
from .gradients import clip_gradients
from .layout import Layout
from .moe import FeedForward
from .offload import Offload
from .precision import Precision
from .scaling import LossScaler, Unscaled
from .spent_warning import spend_unused_warning
from .stages import Stages, fits
from .states import States, ZeroStates


class Strategy:
    """A model's parts under a strategy. `modules` are the modules to call; in `parts`, parameters have the model's names."""

    def __init__(self, stages: Stages, layout: Layout, config: Json) -> None:
        self.layout = layout
        self.config = config
        self.name: str = config["parallel"]["strategy"]
        self.parts: list[nn.Module] = stages.modules
        self.modules: list[nn.Module] = list(stages.modules)
        self.precision = Precision(config)
        self.scaler = Unscaled()
        self.offload = Offload(config, layout.world.device)

    def scale_losses(self, settings: Json) -> None:
        """Makes the scaler of losses; it is called before `make_optimizer`. `settings` are those of a GradScaler."""
        self.scaler = LossScaler(settings, self.layout)

    def parameters(self) -> dict[str, nn.Parameter]:
        """Returns this rank's parameters by the names of the whole model."""
        return {name: parameter for part in self.parts for name, parameter in part.named_parameters()}

    def pass_context(self, is_last: bool) -> contextlib.AbstractContextManager[Any]:
        """Returns the context of a microbatch. With `noSync`, gradients stay on this rank until the step's last microbatch."""
        return contextlib.nullcontext()

    def compute(self) -> contextlib.AbstractContextManager[Any]:
        """Returns the context in which forwards run, such as autocast."""
        return contextlib.nullcontext()

    def is_local(self, by_default: bool) -> bool:
        """Whether gradients stay on this rank until the step's last microbatch."""
        chosen = self.config["parallel"]["noSync"]
        return by_default if chosen is None else bool(chosen)

    def rest(self) -> None:
        """Frees the whole parameters that forwards did not free."""

    def units(self) -> list[Json]:
        """Returns the facts of each unit; an empty list if the strategy has no units."""
        return []

    def make_optimizer(
        self, make: type[torch.optim.Optimizer], groups: list[Json], options: Json
    ) -> torch.optim.Optimizer:
        """Makes the optimizer of this rank's groups of parameters."""
        return make(groups, **options)

    def states(self, stages: Stages, optimizer: torch.optim.Optimizer, names: list[str]) -> States:
        """Returns access to whole tensors; `names` are those of the optimizer's states."""
        return States(stages, self.layout, self.parameters(), optimizer, names)

    def backward(self, loss: Tensor) -> None:
        """Runs the backward of a loss."""
        loss.backward()  # type: ignore[no-untyped-call]

    def reduce_experts(self, stages: Stages) -> None:
        """Averages gradients of experts over the ranks that have these experts, if backward did not."""

    def widen_gradients(self) -> None:
        """Converts gradients to the type of their parameters, which optimizers of PyTorch need, if backward did not."""

    def clip(self, most: float | None, stages: Stages) -> float:
        """Scales gradients whose norm is above `most`; returns the norm before scaling."""
        return clip_gradients(self.parameters(), self.layout, most, stages)

    def update(self, optimizer: torch.optim.Optimizer, norm: float) -> tuple[float, bool]:
        """
        Updates parameters, unless a scaled gradient overflowed. Returns `norm`, which `clip` found, or the norm that the strategy's
        own clipping found; and whether the update was done.
        """
        return norm, self.scaler.step(lambda: optimizer.step())

    def dispose(self) -> None:
        """Frees memory that the garbage collector would not free."""


class Replicated(Strategy):
    """Whole parameters on every rank; gradients are averaged."""

    def __init__(self, stages: Stages, layout: Layout, config: Json) -> None:
        super().__init__(stages, layout, config)
        self.offload.require_whole(False)
        self.replicas: list[DistributedDataParallel] = []
        if layout.dp == 1:
            return
        if stages.may_skip_parameters:
            spend_unused_warning(layout.dp_group, layout.world.device)
        for i, part in enumerate(self.parts):
            # DDP ignores experts, because gradients of experts are averaged over other ranks than gradients of other parameters.
            ignore: Any = DistributedDataParallel._set_params_and_buffers_to_ignore_for_model
            ignore(part, list(stages.expert_owners))
            replica = DistributedDataParallel(
                part,
                process_group=layout.dp_group,
                bucket_cap_mb=config["parallel"]["bucketBytes"] / 2**20,
                init_sync=False,
                find_unused_parameters=bool(experts_of(part)) or stages.may_skip_parameters,
            )
            dtype = self.precision.reduce
            if dtype is not None and dtype != torch.float32:
                replica.register_comm_hook((layout.dp_group, dtype), lambda state, bucket: _reduce_in(state, bucket))
            if config["parallel"]["commHook"] is not None:
                register_comm_hook(replica, layout.dp_group, config["parallel"]["commHook"])
            self.replicas.append(replica)
            self.modules[i] = replica

    def compute(self) -> contextlib.AbstractContextManager[Any]:
        dtype = self.precision.param
        if dtype is None or dtype == torch.float32:
            return contextlib.nullcontext()
        return torch.autocast(self.layout.world.device.type, dtype)

    def pass_context(self, is_last: bool) -> contextlib.AbstractContextManager[Any]:
        stack = contextlib.ExitStack()
        if not is_last and self.is_local(True):
            for replica in self.replicas:
                stack.enter_context(replica.no_sync())
        return stack

    def reduce_experts(self, stages: Stages) -> None:
        group = self.layout.edp_group
        for name, parameter in self.parameters().items():
            if name in stages.expert_owners and parameter.grad is not None and group.size() > 1:
                dist.all_reduce(parameter.grad.div_(group.size()), group=group)


def _reduce_in(state: tuple[dist.ProcessGroup, torch.dtype], bucket: Any) -> Any:
    """Averages a bucket of gradients in a type of 16 bits; torch's own hook is for GPUs only."""
    group, dtype = state
    small = bucket.buffer().to(dtype).div_(group.size())
    work = dist.all_reduce(small, group=group, async_op=True)

    def widen(_: object) -> Tensor:
        whole: Tensor = bucket.buffer().copy_(small)
        return whole

    return work.get_future().then(widen)


class Zero1(Replicated):
    """Whole parameters and gradients; each rank has the optimizer states of some parameters, and updates them."""

    def make_optimizer(
        self, make: type[torch.optim.Optimizer], groups: list[Json], options: Json
    ) -> torch.optim.Optimizer:
        if self.layout.dp == 1:
            return make(groups, **options)
        group = self.layout.dp_group
        return ZeroRedundancyOptimizer(groups, optimizer_class=make, process_group=group, **options)

    def states(self, stages: Stages, optimizer: torch.optim.Optimizer, names: list[str]) -> States:
        kind = ZeroStates if isinstance(optimizer, ZeroRedundancyOptimizer) else States
        return kind(stages, self.layout, self.parameters(), optimizer, names)


def wrapped_modules(stages: Stages, model: nn.Module, wrap: Any) -> list[nn.Module]:
    """
    Returns the modules that `parallel.wrap` makes units, the inner ones first, without the model itself. Raises ShardlabError for
    a name that no module of the model has.
    """
    named = [(name, module) for name, module in model.named_modules() if name != ""]
    if wrap in ("blocks", "moe"):
        experts = [module for _, module in named if isinstance(module, FeedForward)] if wrap == "moe" else []
        chosen = [*(block for _, block in stages.blocks(model)), *experts]
    elif wrap == "root":
        chosen = []
    elif wrap == "linear":
        chosen = [module for _, module in named if isinstance(module, nn.Linear)]
    elif "layerCls" in wrap:
        found = {name: [module for _, module in named if type(module).__name__ == name] for name in wrap["layerCls"]}
        chosen = _all_found(found, stages)
    else:
        found = {pattern: [module for name, module in named if fits(name, pattern)] for pattern in wrap["modules"]}
        # The root reads embeddings itself (positions, a tied head), so embeddings stay in its unit. Lists have no forward.
        kept = (nn.Embedding, nn.ModuleDict, nn.ModuleList)
        chosen = [module for module in _all_found(found, stages) if not isinstance(module, kept)]
    chosen = [*chosen, *(each for each in experts_of(model) if each not in chosen)]
    order = {id(module): depth for depth, module in enumerate(model.modules())}
    return sorted(chosen, key=lambda module: -order[id(module)])


def _all_found(found: dict[str, list[nn.Module]], stages: Stages) -> list[nn.Module]:
    """Returns the modules that were found. Raises ShardlabError for a name without a module, except on a stage of a pipeline."""
    missing = [name for name, modules in found.items() if not modules]
    if missing and stages.count == 1:
        raise ShardlabError("CONFIG", f"parallel.wrap: no module of the model is named {', '.join(missing)}; correct the names, or write 'blocks'")
    return list(dict.fromkeys(module for modules in found.values() for module in modules))
