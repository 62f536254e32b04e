"""Runs a rank's Python cells and holds their variables."""

from __future__ import annotations

import ast
import keyword
import linecache
import math
import unicodedata
from typing import Any

import torch
import torch.distributed as dist

from .errors import Json, ShardlabError
from .sending import encode


class Variables:
    """The namespace in which all cells of a rank run."""

    def __init__(self, **bound: Any) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__", "torch": torch, "dist": dist, **bound}
        self._taken = set(self.names)

    def bind(self, name: str, value: Any) -> None:
        """Adds a name that every rank has."""
        self.names[name] = value
        self._taken.add(name)

    def put(self, values: Json) -> None:
        """Binds values that the launcher sent. Raises ShardlabError for a name that every rank has, or that Python cannot read."""
        for name in values:
            other = f"choose another name: put({{ my_{name}: … }})"
            if name in self._taken or name.startswith("__") and name.endswith("__"):
                raise ShardlabError("CONFIG", f"put cannot replace {name}, which every rank has already; {other}")
            if not name.isidentifier() or keyword.iskeyword(name):
                raise ShardlabError("CONFIG", f"put: {name} cannot be the name of a variable in Python; {other.replace('$', '')}")
        # Python reads names in this form of Unicode.
        self.names.update({unicodedata.normalize("NFKC", name): value for name, value in values.items()})

    def get(self, name: str, rank: int) -> bytes:
        """Returns a variable as the bytes of its value. Raises ShardlabError for a name that is not bound, or a value that cannot be sent."""
        found = unicodedata.normalize("NFKC", name)
        if found not in self.names:
            raise ShardlabError("CONFIG", f"rank {rank} has no variable {name}; assign it in a cell: {name} = …")
        return encode(self.names[found], "job.get", name)

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


def value_or_text(value: Any) -> bytes:
    """Returns the bytes of a value, or of the value's repr if the value cannot be sent."""
    try:
        return encode(value, "job.on().python", "value")
    except ShardlabError:
        return encode(repr(value), "job.on().python", "value")


def number_text(value: float) -> str:
    """Returns the text of a number that is not finite, as JavaScript writes it."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def number(value: float) -> float | str:
    """Returns a number as JSON; a number that is not finite becomes a text."""
    return value if math.isfinite(value) else number_text(value)
