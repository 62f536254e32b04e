"""Rows of reductions, softmaxes and cumulative operations."""

import math

import torch
from torch.nn import functional as F

from .rows import FLOATS, INF, INTS, NAN, SMOOTH, TYPES, b, f, i, ramp, row

AXES = {"": None, "0": 0, "1": 1, "-1": -1, "01": (0, 1)}


def reduced(call):
    def reduce(x, axis, keep):
        dims = tuple(range(x.dim())) if axis is None else tuple(axis) if isinstance(axis, list) else axis
        return call(x, dims, keep)

    return reduce


def product(x, dims, keep):
    dims = (dims,) if isinstance(dims, int) else dims
    for dim in sorted((dim % x.dim() for dim in dims), reverse=True):
        x = torch.prod(x, dim, keep, dtype=x.dtype)
    return x


def double(call, x, dims, keep):
    results = call(x.double(), dims, keep)
    return tuple(result.float() for result in results) if isinstance(results, tuple) else results.float()


def extreme(call, neutral):
    """torch refuses an extreme of nothing; the engine's is the infinity that changes no extreme."""

    def reduce(x, dims, keep):
        try:
            return call(x, dims, keep)
        except (RuntimeError, IndexError):
            return torch.sum(x, dims, keep) + neutral

    return reduce


REDUCTIONS = {
    "sum": lambda x, dims, keep: torch.sum(x, dims, keep, dtype=x.dtype), "mean": torch.mean, "max": extreme(torch.amax, -INF), "min": extreme(torch.amin, INF), "prod": product,
    "logSumExp": torch.logsumexp, "norm": lambda x, dims, keep: torch.linalg.vector_norm(x, 2, dims, keep),
    "moments": lambda x, dims, keep: (torch.mean(x, dims, keep), torch.var(x, dims, correction=0, keepdim=keep)),
    "variance": lambda x, dims, keep: torch.var(x, dims, correction=0, keepdim=keep),
}  # fmt: skip
REDUCED = {
    "nan": f([1.0, NAN, 3.0, 4.0, 5.0, 6.0], [2, 3]), "infinite": f([INF, INF, -INF, -INF, -INF, -INF], [2, 3]),
    "ties": f([2.0, 2.0, 1.0, -0.0, 0.0, -0.0], [2, 3]), "one": f([3.0], [1, 1]), "zero row": f([0.0, 0.0, 0.0, 1.0, -2.0, 2.0], [2, 3]),
    "no rows": f([], [0, 3]), "no columns": f([], [3, 0]), "smooth": ramp([3, 5], 4, -1.7), "two zeros": f([0.0, 2.0, 0.0, 0.0, 3.0, 4.0], [2, 3]),
}  # fmt: skip
for name, call in REDUCTIONS.items():
    for kind, spec in REDUCED.items():
        if kind == "infinite" and name not in ("max", "min"):
            row(name, reduced(call), spec, grad=False, axis=1, keep=False)
            continue
        for axis in [None, 0, 1, [0, 1]]:
            row(name, reduced(call), spec, axis=axis, keep=axis == 1, grad=kind != "nan")
    for axis in [[0, 2], [1, 2], 1, [0, 3], -2]:
        row(name, reduced(call), ramp([2, 3, 4, 5], 3, -1.3), axis=axis, keep=False)
    if name in ("sum", "max", "min", "prod"):
        for axis in [None, 0, 1]:
            row(name, reduced(call), i([16777217, 1, 2147483647, -2147483648, 5, 6], [2, 3]), axis=axis, keep=False)
    if name == "prod":
        continue
    for shape, axis in [([1000000], None), ([1000, 1000], 0), ([1000, 1000], 1), ([200000, 5], 0), ([5, 200000], 1), ([100, 10, 1000], [0, 2])]:
        row(name, reduced(lambda x, dims, keep, call=call: double(call, x, dims, keep)), ramp(shape, 1, 0.4), axis=axis, keep=False, grad=False, tol=1e-6)


for name, call in {"all": torch.all, "any": torch.any}.items():
    for spec in [b([1, 0, 1, 1], [2, 2]), b([], [0, 3]), b([], [3, 0]), b([0, 0, 0, 0], [2, 2])]:
        for axis in [None, 0, 1]:
            row(name, lambda x, axis, call=call: call(x) if axis is None else call(x, dim=axis), spec, axis=axis)
for name, call in {"argMax": torch.argmax, "argMin": torch.argmin}.items():
    for spec in [f([1.0, NAN, 3.0, 4.0, 5.0, 6.0], [2, 3]), f([INF, -INF, 0.0, -INF, INF, INF], [2, 3]), i([16777217, 16777216, 5, 7, -2147483648, 2147483647], [2, 3]), f([], [0, 3]), f([], [3, 0]), f([3.0], [1, 1]), ramp([1000, 3], 1), ramp([3, 1000], 1)]:
        for axis in [0, 1]:
            row(name, lambda x, axis, call=call: call(x, dim=axis), spec, axis=axis)
for name, call in {"softmax": torch.softmax, "logSoftmax": torch.log_softmax}.items():
    for spec in [f([1.0, 2.0, -1.0, 0.0, 0.0, 0.0], [2, 3]), f([1.0, -INF, 2.0, -INF, -INF, 3.0], [2, 3]), f([3.0], [1, 1]), f([], [0, 3]), f([], [3, 0]), f([1000.0, 0.0, -1000.0, 88.0, 89.0, 90.0], [2, 3]), ramp([2, 3, 4], 5)]:
        row(name, lambda x, axis, call=call: call(x, axis), spec, axis=-1)
    for spec in [f([-INF, -INF, -INF, 1.0, 2.0, 3.0], [2, 3]), f([NAN, 1.0, 2.0, 1.0, 2.0, 3.0], [2, 3]), f([INF, 1.0, 2.0, 1.0, 2.0, 3.0], [2, 3])]:
        row(name, lambda x, axis, call=call: call(x, axis), spec, axis=-1, grad=False)
    row(name, lambda x, axis, call=call: call(x.double(), axis).float(), ramp([2, 500000], 9), axis=-1, grad=False, tol=2e-6)
for reverse in [False, True]:
    for exclusive in [False, True]:
        for axis in [0, 1, 2]:
            for name, call, start in [("cumsum", torch.cumsum, 0), ("cumprod", torch.cumprod, 1)]:

                def scan(x, axis, exclusive, reverse, call=call, start=start):
                    x = torch.flip(x, [axis]) if reverse else x
                    if exclusive:
                        x = torch.cat([torch.full_like(x.narrow(axis, 0, 1), start), x.narrow(axis, 0, x.shape[axis] - 1)], axis)
                    made = call(x, axis, dtype=x.dtype)
                    return torch.flip(made, [axis]) if reverse else made

                row(name, scan, ramp([2, 3, 2], 3, -1), axis=axis, exclusive=exclusive, reverse=reverse)
for name, call in {"cumsum": torch.cumsum, "cumprod": torch.cumprod}.items():
    for spec in [i([16777217, 1, 1, 3]), f([1.0, NAN, 2.0]), f([0.0, 2.0, 0.0, 3.0]), f([], [0]), f([5.0])]:
        row(name, lambda x, axis, exclusive, reverse, call=call: call(x, axis, dtype=x.dtype), spec, axis=0, exclusive=False, reverse=False, grad=spec["v"][1:2] != [NAN])
row("cumsum", lambda x, axis, exclusive, reverse: torch.cumsum(x.double(), axis).float(), ramp([300000], 1), axis=0, exclusive=False, reverse=False, grad=False, tol=1e-6)
