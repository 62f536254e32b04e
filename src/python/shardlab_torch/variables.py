"""Runs a rank's Python cells and holds their variables."""

from __future__ import annotations

import ast
import linecache
import math
from typing import Any

import torch
import torch.distributed as dist

from .errors import Json, ShardlabError


class Variables:
    """The namespace in which all cells of a rank run."""

    def __init__(self, **bound: Any) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__", "torch": torch, "dist": dist, **bound}

    def put(self, values: Json) -> None:
        """Binds values that the launcher sent."""
        self.names.update({name: _received(value) for name, value in values.items()})

    def get(self, name: str, rank: int) -> Any:
        """Returns a variable as plain JSON. Raises ShardlabError for a name that is not bound."""
        if name not in self.names:
            raise ShardlabError("CONFIG", f"rank {rank} has no variable {name}; assign it in a cell: {name} = …")
        return sendable(self.names[name], name)

    def run(self, source: str, file: str) -> Any:
        """Runs a cell; returns the value of its last expression, or None. `file` is the cell's name in tracebacks."""
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        tree = ast.parse(source, file)
        last = tree.body[-1] if tree.body else None
        if not isinstance(last, ast.Expr):
            exec(compile(tree, file, "exec"), self.names)
            return None
        tree.body.pop()
        exec(compile(tree, file, "exec"), self.names)
        return eval(compile(ast.Expression(last.value), file, "eval"), self.names)


def _received(value: Any) -> Any:
    """Returns a value from JSON; {"float": "NaN"} stands for a number that JSON does not have."""
    if isinstance(value, dict):
        if list(value) == ["float"]:
            return float(value["float"])
        return {key: _received(item) for key, item in value.items()}
    return [_received(item) for item in value] if isinstance(value, list) else value


def sendable(value: Any, name: str) -> Any:
    """Returns a value as plain JSON. Raises ShardlabError for a value that JSON cannot express."""
    if isinstance(value, torch.Tensor):
        local = value.to_local() if hasattr(value, "to_local") else value
        return sendable(local.detach().tolist(), name)
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": number_text(value)}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: sendable(item, name) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [sendable(item, name) for item in value]
    if hasattr(value, "tolist"):
        return sendable(value.tolist(), name)
    raise ShardlabError(
        "CONFIG", f"get: {name} has a {type(value).__name__}, which cannot be sent; get numbers, text, lists or tensors"
    )


def sendable_or_text(value: Any) -> Any:
    """Returns a value as plain JSON, or the value's repr if JSON cannot express it."""
    try:
        return sendable(value, "the value")
    except ShardlabError:
        return repr(value)


def number_text(value: float) -> str:
    """Returns the text of a number that is not finite, as JavaScript writes it."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def number(value: float) -> float | str:
    """Returns a number as JSON; a number that is not finite becomes a text."""
    return value if math.isfinite(value) else number_text(value)
