"""Rows of operations on single elements."""

import math

import torch
from torch.nn import functional as F

from .rows import FLOATS, INF, INTS, NAN, SMOOTH, TYPES, b, f, i, ramp, row

# Operations of one input.
UNARY = {
    "abs": torch.abs, "acos": torch.acos, "acosh": torch.acosh, "asin": torch.asin, "asinh": torch.asinh, "atan": torch.atan, "atanh": torch.atanh,
    "ceil": torch.ceil, "cos": torch.cos, "cosh": torch.cosh, "elu": F.elu, "erf": torch.erf, "exp": torch.exp, "expm1": torch.expm1,
    "floor": torch.floor, "isFinite": torch.isfinite, "isInf": torch.isinf, "isNaN": torch.isnan, "leakyRelu": lambda x: F.leaky_relu(x, 0.2),
    "log": torch.log, "log1p": torch.log1p, "neg": torch.neg, "onesLike": torch.ones_like, "reciprocal": torch.reciprocal, "relu": F.relu,
    "relu6": F.relu6, "round": torch.round, "rsqrt": torch.rsqrt, "selu": F.selu, "sigmoid": torch.sigmoid, "sign": torch.sign, "sin": torch.sin,
    "sinh": torch.sinh, "softplus": F.softplus, "sqrt": torch.sqrt, "square": torch.square, "tan": torch.tan, "tanh": torch.tanh,
    "zerosLike": torch.zeros_like, "F.gelu": F.gelu, "F.geluTanh": lambda x: F.gelu(x, approximate="tanh"), "F.silu": F.silu,
    "F.mish": F.mish, "F.logSigmoid": F.logsigmoid, "F.softplus": F.softplus, "F.elu": F.elu, "F.normalize": lambda x: F.normalize(x.reshape(-1, 1 if x.numel() % 3 else 3), dim=-1), "detach": lambda x: x.detach(),
}  # fmt: skip
ON_INTS = "abs isFinite isInf isNaN neg onesLike relu relu6 sign square zerosLike".split()
# Where torch's own float32 result is inexact, or the derivative has no agreed value.
HUGE = {"erf", "tanh"}

for name, call in UNARY.items():
    values = [v for v in FLOATS if name not in HUGE or abs(v) < 1e30 or math.isnan(v) or math.isinf(v)]
    # torch's own answers depend on its vector code here: the exact GELU of infinity is NaN; and sign swallows NaN.
    values = [v for v in values if (name not in ("F.gelu", "F.normalize") or math.isnan(v) or abs(v) < (INF if name == "F.gelu" else 1e30)) and (name != "sign" or not math.isnan(v))]
    row(name, call, f(values))
    row(name, call, f(SMOOTH))
    row(name, call, f([], [0, 3]))
    row(name, call, f([0.75, 0.0, -0.75], [1, 3, 1]))
for name in ON_INTS:
    row(name, UNARY[name], i(INTS))
for low, high in [(0, 2), (-1, 1)]:
    row("clip", lambda x, low, high: torch.clamp(x, low, high), f(FLOATS), low=low, high=high)
row("clip", lambda x, low, high: torch.clamp(x, low, high), i(INTS), low=-5, high=16777219)
row("step", lambda x: torch.where(torch.isnan(x), x, (x > 0).float()), f(FLOATS), grad=False)
for kind in ["f", "i", "b"]:
    row("cast", lambda x, to: x.to(TYPES[to]), f([1.7, -1.7, 0.0, -0.0, 1e-40, 2147483000.0]), to=kind, grad=False)
    row("cast", lambda x, to: x.to(TYPES[to]), i(INTS), to=kind)
    row("cast", lambda x, to: x.to(TYPES[to]), b([1, 0]), to=kind)
row("cast", lambda x, to: x.to(TYPES[to]), f([NAN, INF, -INF]), to="b", grad=False)

# Operations of two inputs.
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum, "minimum": torch.minimum, "pow": torch.pow,
    "mod": torch.remainder, "floorDiv": torch.floor_divide, "squaredDifference": lambda x, y: (x - y) ** 2, "atan2": torch.atan2,
    "equal": torch.eq, "notEqual": torch.ne, "less": torch.lt, "lessEqual": torch.le, "greater": torch.gt, "greaterEqual": torch.ge,
}  # fmt: skip
SMOOTH_PAIRS = ([0.3, 1.7, 2.2, 0.9, 1.1, 3.1], [1.3, 0.6, 1.9, 2.4, 0.7, 2.8])
for name, call in BINARY.items():
    pairs = [(x, y) for x in FLOATS for y in FLOATS]
    if name == "floorDiv":
        pairs = [(x, y) for x, y in pairs if abs(x) < 1e30 and 1e-30 < abs(y) < 1e30]
    if name == "mod":
        pairs = [(x, y) for x, y in pairs if abs(x) < 1e30 and 1e-30 < abs(y)]
    row(name, call, f([x for x, _ in pairs]), f([y for _, y in pairs]), grad=False)
    row(name, call, *(f(values, [2, 3]) for values in SMOOTH_PAIRS))
    ties = [1.0, -1.0, 0.0, -0.0, 2.0, 0.5]
    if name not in ("atan2", "mod", "floorDiv", "div", "pow"):
        row(name, call, f(ties), f(ties))
    for left, right in [([2, 3], [3]), ([3], [2, 3]), ([2, 1], [1, 3]), ([1], [2, 3]), ([2, 3], []), ([], [2, 3]), ([2, 1, 2], [3, 1]), ([0, 3], [3]), ([0, 3], [1]), ([2, 0], [2, 1])]:
        row(name, call, ramp(left, 2, 0.5), ramp(right, 3, 0.7))
    row(name, call, f([NAN, 1.0, 2.0], [3, 1]), f(FLOATS, [3, 7]), grad=False)
    int_pairs = [(x, y) for x in INTS for y in INTS]
    if name in ("floorDiv", "mod"):
        int_pairs = [(x, y) for x, y in int_pairs if y != 0 and (x, y) != (-2147483648, -1)]
    if name == "pow":
        int_pairs = [(x, y) for x in [0, 1, -1, 2, 3, -3, 10, 46341] for y in [0, 1, 2, 3, 9]]
    if name not in ("div", "atan2"):
        row(name, call, i([x for x, _ in int_pairs]), i([y for _, y in int_pairs]))
        row(name, call, i([16777217, 5], [2, 1]), i([3, 7, 16777219]))
for name, call in {"logicalAnd": torch.logical_and, "logicalOr": torch.logical_or, "logicalXor": torch.logical_xor}.items():
    row(name, call, b([1, 1, 0, 0], [2, 2]), b([1, 0, 1, 0], [2, 2]))
    row(name, call, b([1, 0]), b([1, 0], [2, 1]))
    row(name, call, b([], [0, 2]), b([1, 0]))
row("logicalNot", torch.logical_not, b([1, 0]))
row("logicalNot", torch.logical_not, b([], [0]))
row("bitwiseAnd", torch.bitwise_and, i(INTS), i(list(reversed(INTS))))
row("prelu", lambda x, alpha: torch.where(x > 0, x, alpha * x), ramp([2, 3], 4, -2), f([0.1, 0.2, 0.3]))
row("prelu", lambda x, alpha: torch.where(x > 0, x, alpha * x), f([NAN, INF, -INF, 1.0, -1.0, 3.0]), f([INF, NAN, 0.5, NAN, 0.5, INF]), grad=False)
row("where", torch.where, b([1, 0, 1]), f([1.0, 2.0, NAN]), f([NAN, 5.0, 6.0]))
row("where", torch.where, b([1, 0]), f([1.0, 2.0, 3.0, 4.0], [2, 2]), f([5.0, 6.0], [1, 2]))
row("where", torch.where, b([1, 0], [2, 1]), f([1.0, 2.0], [2]), f([5.0]))
row("where", torch.where, b([], [0]), f([], [0]), f([], [0]))
row("where", torch.where, b([1, 0]), i([16777217, 2]), i([3, 16777219]))
