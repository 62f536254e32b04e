"""
Tensor parallelism of a GPT or Llama: attention is split by heads, feed-forward layers by features, embedding and head by the
vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn
from torch.distributed.tensor import Placement, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from .errors import Json, ShardlabError
from .layout import Layout
from .states import Reorder

Plan = dict[str, ParallelStyle]
_SEQUENCE = Shard(1)


def split_matrices(module: nn.Module, layout: Layout, shape: Json, is_sequence: bool) -> None:
    """
    Splits a model, or a stage, over the ranks of the axis tp, in place; under sequence parallelism, layers between the matrices
    are split by positions. Raises ShardlabError if the ranks do not divide the heads.
    """
    if layout.tp == 1:
        return
    for key in ("heads", "kvHeads"):
        heads = shape.get(key)
        if heads is not None and heads % layout.tp != 0:
            raise ShardlabError("CONFIG", f"parallel.tp {layout.tp} does not divide the model's {key} {heads}; give a divisor of {heads}")
    plan = _gpt_plan(is_sequence) if shape["kind"] == "gpt" else _llama_plan(is_sequence)
    known = dict(module.named_modules())
    own = {name: style for name, style in plan.items() if "*" in name or name in known}
    trained = {name: parameter.requires_grad for name, parameter in module.named_parameters()}
    parallelize_module(module, layout.mesh["tp"], own, src_data_rank=None)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(trained[name])
    if is_sequence and not module.is_first:
        parallelize_module(module, layout.mesh["tp"], _parts_in())
    if is_sequence and not module.is_last:
        parallelize_module(module, layout.mesh["tp"], _parts_out())


def _gpt_plan(is_sequence: bool) -> Plan:
    if not is_sequence:
        column, row = ColwiseParallel(), RowwiseParallel()
        return {"blocks.*.qkv": column, "blocks.*.proj": row, "blocks.*.fc1": column, "blocks.*.fc2": row, **_ends("wte")}
    column, row = ColwiseParallel(input_layouts=_SEQUENCE), _rows(Shard(-1))
    plan: Plan = {"blocks.*.qkv": column, "blocks.*.proj": row, "blocks.*.fc1": column, "blocks.*.fc2": row}
    norms = {name: SequenceParallel() for name in ("blocks.*.ln1", "blocks.*.ln2", "ln_f", "wpe")}
    return {**plan, **norms, **_sequence_ends("wte")}


def _llama_plan(is_sequence: bool) -> Plan:
    column, row = ColwiseParallel(), _rows(Shard(-1)) if is_sequence else RowwiseParallel()
    attention = {f"model.layers.*.self_attn.{name}_proj": row if name == "o" else column for name in "qkvo"}
    feed = {f"model.layers.*.mlp.{name}_proj": row if name == "down" else column for name in ("gate", "up", "down")}
    if not is_sequence:
        return {**attention, **feed, **_ends("model.embed_tokens")}
    # Matrices that share an input share its all-gather.
    inputs: Plan = {
        "model.layers.*.self_attn": PrepareModuleInput(
            input_layouts=(_SEQUENCE, None, None), desired_input_layouts=(Replicate(), None, None)
        ),
        "model.layers.*.mlp": PrepareModuleInput(input_layouts=(_SEQUENCE,), desired_input_layouts=(Replicate(),)),
    }
    norms = {f"model.layers.*.{name}": SequenceParallel() for name in ("input_layernorm", "post_attention_layernorm")}
    return {**inputs, **attention, **feed, **norms, "model.norm": SequenceParallel(), **_sequence_ends("model.embed_tokens")}


def _ends(embedding: str) -> Plan:
    """Returns the plan of an embedding and the head."""
    head = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
    return {embedding: RowwiseParallel(input_layouts=Replicate()), "lm_head": head}


def _sequence_ends(embedding: str) -> Plan:
    head = ColwiseParallel(input_layouts=_SEQUENCE, output_layouts=Shard(-1), use_local_output=False)
    return {embedding: _rows(Replicate()), "lm_head": head}


def _rows(inputs: Placement) -> RowwiseParallel:
    return RowwiseParallel(input_layouts=inputs, output_layouts=_SEQUENCE, use_local_output=False)


def _parts_in() -> ParallelStyle:
    """Returns the style of a stage's input: this rank's positions, which the stage before sent from the same index on axis tp."""
    return PrepareModuleInput(input_layouts=(_SEQUENCE,), desired_input_layouts=(_SEQUENCE,))


def _parts_out() -> ParallelStyle:
    return PrepareModuleOutput(output_layouts=(_SEQUENCE,), desired_output_layouts=(_SEQUENCE,))


def orders(names: Iterable[str], layout: Layout, shape: Json) -> dict[str, tuple[Reorder, Reorder]]:
    """
    Returns, by the parameter's name, two functions: the first reorders the model's rows for this run, the second undoes this.
    A GPT's queries, keys and values are one matrix; with the new order, the rows of each rank's heads follow one another.
    """
    if layout.tp == 1 or shape["kind"] != "gpt":
        return {}
    tp = layout.tp

    def here(value: Tensor) -> Tensor:
        return value.reshape(3, tp, -1).transpose(0, 1).reshape(value.shape).contiguous()

    def back(value: Tensor) -> Tensor:
        return value.reshape(tp, 3, -1).transpose(0, 1).reshape(value.shape).contiguous()

    return {name: (here, back) for name in names if ".qkv." in name}
