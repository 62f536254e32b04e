"""The rows of edges_reference.json: how inputs are made, and how results are recorded."""

import math
import warnings

import torch

warnings.filterwarnings("ignore")
torch.manual_seed(0)
NAN, INF = math.nan, math.inf
FLOATS = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -1.5, -2.5, 1e-40, 1e38, -1e38, 100.0, -100.0, 20.0, -20.0, 7.0]
INTS = [0, 1, -1, 16777217, -16777217, 2147483647, -2147483648, 5, -7]
SMOOTH = [0.3, -0.7, 1.2, -1.9, 0.05, 2.6]
TYPES = {"f": torch.float32, "i": torch.int32, "b": torch.bool}
# Of longer results, a row has every n-th element.
MOST = 1000
ROWS = []


def array(kind, values, shape=None):
    """The input of a row: its type, shape and values, or the factor of ramp()."""
    return {"t": kind, "s": list(shape if shape is not None else [len(values)]), "v": values}


def f(values, shape=None):
    return array("f", values, shape)


def i(values, shape=None):
    return array("i", values, shape)


def b(values, shape=None):
    return array("b", values, shape)


def ramp(shape, scale=1.0, shift=0.0, kind="f"):
    """Element k is ((7919 k) mod 1009) / 1009 scale + shift, as both sides compute it in float64."""
    return {"t": kind, "s": list(shape), "r": [scale, shift]}


def tensor(spec):
    if "r" in spec:
        scale, shift = spec["r"]
        values = [((7919 * k) % 1009) / 1009 * scale + shift for k in range(math.prod(spec["s"]))]
        values = [math.floor(value) for value in values] if spec["t"] == "i" else values
    else:
        values = spec["v"]
    return torch.tensor(values, dtype=TYPES[spec["t"]]).reshape(spec["s"])


def told(value):
    """A number as JSON can have it, with the digits that a float32 needs."""
    if isinstance(value, (bool, int)):
        return int(value)
    if math.isnan(value):
        return "N"
    if math.isinf(value):
        return "I" if value > 0 else "-I"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else 0
    return float(f"{value:.9g}")


def recorded(result):
    kind = {torch.float32: "f", torch.int32: "i", torch.int64: "i", torch.bool: "b"}[result.dtype]
    flat = result.detach().reshape(-1)
    every = max(1, flat.numel() // MOST)
    made = array(kind, [told(value) for value in flat[::every].tolist()], result.shape)
    return made if every == 1 else {**made, "every": every}


def upstream(result):
    count = result.numel()
    return torch.tensor([((37 * k) % 11 - 5) / 4 for k in range(count)]).reshape(result.shape)


def row(name, call, *inputs, tol=None, grad=True, **args):
    """Records a call; `tol` is the allowed relative error if it is larger than usual."""
    tensors = [tensor(spec) for spec in inputs]
    wanted = [one.requires_grad_() for one in tensors if one.dtype == torch.float32] if grad else []
    shown = [{**spec, "v": [told(v) for v in spec["v"]]} if "v" in spec else spec for spec in inputs]
    made = {"op": name, "in": shown, **({"a": args} if args else {}), **({"tol": tol} if tol else {})}
    try:
        results = call(*tensors, **args)
    except (RuntimeError, IndexError, ValueError):
        ROWS.append(made)
        return
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    made["out"] = [recorded(result) for result in results]
    if wanted and results[0].requires_grad and name != "floorDiv":  # torch has no derivative of floor_divide
        results[0].backward(upstream(results[0]))
        made["g"] = [None if one.grad is None else recorded(one.grad)["v"] for one in wanted]
    ROWS.append(made)
