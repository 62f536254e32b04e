"""
Tensor parallelism of a GPT or Llama: attention is split by heads, feed-forward layers by features, embedding and head by the
vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module

from .errors import Json, ShardlabError
from .layout import Layout
from .states import Reorder

_ROWS = RowwiseParallel(input_layouts=Replicate())
_HEAD = ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)


def split_matrices(module: nn.Module, layout: Layout, shape: Json) -> None:
    """Splits a model, or a stage, over the ranks of the axis tp, in place. Raises ShardlabError if heads do not divide."""
    if layout.tp == 1:
        return
    for key in ("heads", "kvHeads"):
        heads = shape.get(key)
        if heads is not None and heads % layout.tp != 0:
            raise ShardlabError("CONFIG", f"parallel.tp {layout.tp} does not divide the model's {key} {heads}; give a divisor of {heads}")
    column, row = ColwiseParallel(), RowwiseParallel()
    plan: dict[str, ParallelStyle]
    if shape["kind"] == "gpt":
        plan = {"blocks.*.qkv": column, "blocks.*.proj": row, "blocks.*.fc1": column, "blocks.*.fc2": row}
        plan.update({"wte": _ROWS, "lm_head": _HEAD})
    else:
        attention = {f"model.layers.*.self_attn.{name}_proj": row if name == "o" else column for name in "qkvo"}
        names = ("gate", "up", "down")
        feed = {f"model.layers.*.mlp.{name}_proj": row if name == "down" else column for name in names}
        plan = {**attention, **feed, "model.embed_tokens": _ROWS, "lm_head": _HEAD}
    known = dict(module.named_modules())
    own = {name: style for name, style in plan.items() if "*" in name or name in known}
    parallelize_module(module, layout.mesh["tp"], own, src_data_rank=None)


def orders(names: Iterable[str], layout: Layout, shape: Json) -> dict[str, tuple[Reorder, Reorder]]:
    """
    Returns, by parameter, the functions from the model's order of rows to this run's, and back. A GPT's queries, keys and values
    are one matrix, whose rows are ordered so that each rank's heads follow one another.
    """
    if layout.tp == 1 or shape["kind"] != "gpt":
        return {}
    tp = layout.tp

    def here(value: Tensor) -> Tensor:
        return value.reshape(3, tp, -1).transpose(0, 1).reshape(value.shape).contiguous()

    def back(value: Tensor) -> Tensor:
        return value.reshape(tp, 3, -1).transpose(0, 1).reshape(value.shape).contiguous()

    return {name: (here, back) for name in names if ".qkv." in name}
