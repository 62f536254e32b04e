"""The modules of a run's model on this rank: the whole model, or stages of a pipeline."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from . import dit, gpt, llama, moe
from .dropout import Draws
from .errors import Json, ShardlabError
from .expert_parallel import keep_own_experts
from .layout import Layout
from .lora import adapt, is_adapter

_KINDS: dict[str, Callable[..., Any]] = {"gpt": gpt.GPT, "moe": moe.MoeGPT, "llama": llama.Llama, "dit": dit.new_dit}

# Source: torchtitan's list of operations whose results selective checkpointing stores.
_STORED_OPS = [
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
]


class Stages:
    """The model's stages on one rank. Each stage is a module whose parameters have their names in the whole model."""

    def __init__(self, given: Json, config: Json, layout: Layout) -> None:
        shape, parallel, pp, pp_rank = given["shape"], config["parallel"], layout.pp, layout.pp_rank
        per_rank = 1 if pp == 1 else parallel["virtualStages"] or (2 if parallel["schedule"] == "interleaved" else 1)
        self.count = pp * per_rank
        self.indices = [pp_rank + pp * turn for turn in range(per_rank)]
        # The random numbers of the layers that drop elements.
        self.draws = Draws(config["seed"], layout.data_rank)
        # The name of the parameter that the first and the last stage share.
        self.tied: str | None = None
        ranges = _split(shape["layers"], self.count, parallel["stageSplit"])

        def make(layers: range, is_first: bool, is_last: bool) -> Any:
            """Makes a part of the model on the meta device, which has shapes but no values."""
            with torch.device("meta"):
                module = _KINDS[shape["kind"]](shape, layers, is_first, is_last)
                adapt(module, given.get("adapted") or [], config["lora"], self.draws)
            return module

        whole = make(range(shape["layers"]), True, True)
        self.num_layers: int = shape["layers"]
        # The order and the shapes of all parameters.
        self.shapes: dict[str, torch.Size] = {name: each.shape for name, each in whole.named_parameters()}
        self.owners: dict[str, int] = {}
        # For each parameter of an expert: the rank of the axis ep that has the expert.
        self.expert_owners: dict[str, int] = {}
        self.modules: list[Any] = []
        for index, layers in enumerate(ranges):
            module = make(layers, index == 0, index == self.count - 1)
            for name, _ in module.named_parameters():
                if name in self.owners:
                    self.tied = name
                self.owners.setdefault(name, index % pp)
            if index in self.indices:
                moe.seed_noise(module, config["seed"])
                self.expert_owners.update(keep_own_experts(module, layout, parallel["expertPlacement"]))
                self.modules.append(module.to_empty(device=layout.world.device))
        self.frozen = frozen_names(whole, config["frozen"])
        if config["lora"] is not None:
            self.frozen |= {name for name in self.shapes if not is_adapter(name)}
        for module in self.modules:
            for name, parameter in module.named_parameters():
                parameter.requires_grad_(name not in self.frozen)

    @property
    def num_parameters(self) -> int:
        """The number of parameters of the whole model."""
        return sum(shape.numel() for shape in self.shapes.values())

    @property
    def layers(self) -> list[tuple[int, nn.Module]]:
        """The blocks on this rank, with their indices in the whole model."""
        return [pair for module in self.modules for pair in self.blocks(module)]

    def blocks(self, module: Any) -> list[tuple[int, nn.Module]]:
        """
        Returns the blocks of a module, each with its index in the whole model. If the model has two transformers, the index is
        the one in the block's own transformer.
        """
        return [(int(index), block) for each in dit.experts_of(module) or [module] for index, block in each.layers.items()]

    @property
    def may_skip_parameters(self) -> bool:
        """Whether a pass may reach only some parameters, others in each pass and on each rank."""
        return False

    @property
    def buffers(self) -> dict[str, Tensor]:
        """The buffers that checkpoints store."""
        return {}


def _split(layers: int, stages: int, split: Any) -> list[range]:
    """Returns the layers of each stage. If some layers remain, the second stage and the next ones get one more layer each."""
    if isinstance(split, list) and stages > 1:
        counts = split
    else:
        least, extra = divmod(layers, stages)
        counts = [least + (1 if 1 <= stage <= extra else 0) for stage in range(stages)]
    if len(counts) != stages or sum(counts) != layers or min(counts) < 1:
        raise ShardlabError("CONFIG", f"parallel.stageSplit {counts} does not divide {layers} layers into {stages} stages")
    starts = [sum(counts[:stage]) for stage in range(stages)]
    return [range(start, start + count) for start, count in zip(starts, counts, strict=True)]


def fits(name: str, pattern: str) -> bool:
    """Whether a name matches a pattern, such as 'blocks.*.fc1', in which '*' stands for any one part of the name."""
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(want in ("*", part) for part, want in zip(parts, wanted, strict=True))


def has_no_forward(module: nn.Module) -> bool:
    """Whether a module is a list or dictionary that nothing calls, so that FSDP cannot gather it."""
    return isinstance(module, (nn.ModuleList, nn.ModuleDict)) and type(module).forward is nn.Module.forward


def frozen_names(model: nn.Module, patterns: Iterable[str]) -> set[str]:
    """
    Returns the parameters that patterns name, directly or by their module. Raises ShardlabError for a pattern without a match.
    """
    frozen: set[str] = set()
    names = [name for name, _ in model.named_parameters()]
    for pattern in patterns:
        found = {name for name in names if fits(name, pattern)}
        if not found:
            modules = [name for name, _ in model.named_modules() if fits(name, pattern)]
            found = {name for name in names for module in modules if module == "" or name.startswith(f"{module}.")}
        if not found:
            raise ShardlabError("CONFIG", f'frozen: no module of the model is named "{pattern}"')
        frozen |= found
    if patterns and len(frozen) == len(names):
        raise ShardlabError("CONFIG", f"frozen: {', '.join(patterns)} leave nothing to train; freeze fewer modules")
    return frozen


def checkpoint_activations(stages: Stages, config: Any) -> None:
    """Makes the blocks that `activationCheckpointing` chooses run their forward again in backward."""
    if config is None:
        return
    every = config["everyNth"] if isinstance(config, dict) else 1
    options: Json = {"use_reentrant": False}
    if config == "selective":
        options["context_fn"] = functools.partial(create_selective_checkpoint_contexts, _STORED_OPS)
    for index, block in stages.layers:
        if index % every == 0:
            block.forward = _checkpointed(block.forward, stages.draws, options)


def _checkpointed(forward: Callable[..., Any], draws: Draws, options: Json) -> Callable[..., Any]:
    return lambda *inputs, **named: checkpoint(draws.repeatable(forward), *inputs, **options, **named)
