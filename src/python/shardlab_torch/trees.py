"""Tensors in dicts, tuples and lists, as users' batches have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn


def called(module: nn.Module, inputs: Any) -> Any:
    """Calls a module with a batch's inputs: those of a dict by name, those of a tuple or a list in their order."""
    if isinstance(inputs, dict):
        return module(**inputs)
    return module(*inputs) if isinstance(inputs, (tuple, list)) else module(inputs)


def mapped(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Returns dicts, tuples and lists with each tensor changed."""
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, dict):
        return {key: mapped(each, change) for key, each in tree.items()}
    if isinstance(tree, (tuple, list)):
        return [mapped(each, change) for each in tree]
    return tree


def leaves(tree: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values in dicts, tuples and lists, each with its place, such as 'x' or 'pair.0'."""
    if isinstance(tree, (dict, tuple, list)):
        for key, each in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from leaves(each, f"{name}.{key}" if name else str(key))
    else:
        yield name, tree
