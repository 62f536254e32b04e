"""Operations of PyTorch as the kernels by which a plan estimates time: matmuls, attention, and memory traffic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from .errors import Json

aten = torch.ops.aten


def kernels_of(func: Any, args: Sequence[Any], kwargs: Json, read: Sequence[Tensor], made: Sequence[Tensor]) -> list[Json]:
    """Returns the kernels of an operation that read and wrote these tensors."""
    packet = func._overloadpacket
    name = func._schema.name.removeprefix("aten::")
    if "scaled_dot_product" in name:
        return [_attention(func, args, kwargs)]
    if packet in _MATMULS:
        return [_matmul(*args[_MATMULS[packet] :][:2])]
    if packet is aten.convolution:
        return [_convolution(args[0], args[1], made[0], args[6], args[8], "forward")]
    if packet is aten.convolution_backward:
        grad, x, weight, groups = args[0], args[1], args[2], args[9]
        wanted = [part for part, is_wanted in zip(("input", "weight"), args[10]) if is_wanted]
        return [_convolution(x, weight, grad, args[7], groups, part) for part in wanted]
    if name.startswith(("empty", "new_empty")):
        return []
    # The plan knows that this kernel reads only some rows of a table.
    name = "GatherV2" if packet is aten.embedding else name
    traffic: Json = {"name": name, "inputs": [_tensor(each) for each in read], "outputs": [_tensor(each) for each in made]}
    if packet not in flop_registry:
        return [traffic]
    # Another operation with a formula, such as one of a package: a matmul with the same number of operations.
    flops = int(flop_registry[packet](*args, **kwargs, out_val=made[0] if len(made) == 1 else tuple(made)))
    size = max(1, round((flops / 2) ** (1 / 3)))
    return [traffic, _product(size, size, max(1, round(flops / 2 / size / size)))]


# For each matmul: the index of its first matrix among the arguments.
_MATMULS = {aten.mm: 0, aten.bmm: 0, aten.addmm: 1, aten.baddbmm: 1, aten.addbmm: 1}


def _matmul(a: Tensor, b: Tensor) -> Json:
    return _product(a.shape[-2], b.shape[-1], a.shape[-1], math.prod(a.shape[:-2]))


def _convolution(x: Tensor, weight: Tensor, result: Tensor, transposed: bool, groups: int, part: str) -> Json:
    """A convolution as a matmul over the window of each output position, by groups of channels."""
    # A transposed convolution is the gradient of another convolution, from `result` to `x`.
    images, filters = (x, weight.shape[0]) if transposed else (result, weight.shape[0])
    positions = images.numel() // filters
    depth, channels = math.prod(weight.shape[1:]), filters // groups
    sizes = {
        "forward": (positions, channels, depth),
        "input": (positions, depth, channels),
        "weight": (channels, depth, positions),
    }
    return _product(*sizes[part], groups)


def _product(m: int, n: int, k: int, batch: int = 1) -> Json:
    return {
        "name": "BatchMatMul",
        "inputs": [{"shape": [batch, m, k], "dtype": "float32"}, {"shape": [batch, k, n], "dtype": "float32"}],
        "outputs": [{"shape": [batch, m, n], "dtype": "float32"}],
    }


def _attention(func: Any, args: Sequence[Any], kwargs: Json) -> Json:
    given = {argument.name: value for argument, value in zip(func._schema.arguments, args)} | kwargs
    is_backward = "backward" in func._schema.name
    # [B, H, T, D] → [B, T, H, D].
    shapes = [[each.shape[0], each.shape[2], each.shape[1], each.shape[3]] for each in (given["query"], given["key"])]
    tensors = [{"shape": shape, "dtype": "float32"} for shape in shapes]
    return {
        "name": "FlashAttentionGrad" if is_backward else "FlashAttention",
        "inputs": tensors,
        "outputs": tensors[:1],
        "attrs": {"causal": bool(given.get("is_causal", False))},
    }


def _tensor(tensor: Tensor) -> Json:
    """Values of 32 bits have their shape; other types are described by their bytes."""
    if tensor.dtype == torch.float32:
        return {"shape": list(tensor.shape), "dtype": "float32"}
    return {"shape": [tensor.numel() * tensor.element_size()], "dtype": "bool"}
