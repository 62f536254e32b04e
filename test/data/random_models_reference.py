"""Writes random_models_reference.json: random models, plans that distribute them, and torch's gradients of the whole models.

Each seed gives a model (a list of blocks with their sizes), and a plan: the ranks of tensor and data parallelism, the styles of
layers, the units, the checkpointed blocks, and how backward is called. test/sharding/random-models/interpret.ts makes the same
model from the same description. Parameters, numbered in the order of their sorted names, are scattered(size, number), norms'
weights 1 more; running means are scattered(size, 7), running variances 1 more. Row r of input i has the r-th part of
scattered(size, 100 + i, 4). All is computed in float64. A model is left out if rounding alone could come near the bounds of
suite.ts: if torch in float32 is not within a fifth of them, or jittered outputs and gradients of modules not within a half. Of each
gradient, the norm and its products with scattered(size, p, sqrt(12)) for p = 11, 12, 13 are stored, or null.

    python test/data/random_models_reference.py              # the models of `npm test`, for two ranks
    python test/data/random_models_reference.py 500 1000 4   # prints 500 models for four ranks, from seed 1000 on
"""

import json
import math
import os
import random
import sys

import torch
from torch import nn
from torch.nn import functional as F

from layer_reference import scattered

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = 8
# Of all lists of 25 seeds, the models of these have the most kinds of blocks and plans.
FIRST_STORED, NUM_STORED = 84, 25
ACTS = {"relu": torch.relu, "tanh": torch.tanh, "gelu": F.gelu, "silu": F.silu, "sigmoid": torch.sigmoid}
RECURRENT = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}
NORMS = {"LayerNorm": nn.LayerNorm, "RMSNorm": nn.RMSNorm, "BatchNorm1d": nn.BatchNorm1d, "BatchNorm2d": nn.BatchNorm2d}


class Block(nn.Module):
    """One block; `spec` is its description."""

    def __init__(self, spec):
        super().__init__()
        self.spec = spec
        kind, width = spec["kind"], spec.get("width")
        if kind == "linear":
            self.fc = nn.Linear(width, spec["out"], bias=spec["bias"])
            if spec["spare"]:
                self.spare = nn.Linear(width, width)
        elif kind in ("mlp", "gated", "sequence"):
            self.up = nn.Linear(width, spec["mid"])
            self.down = nn.Linear(spec["mid"], width)
            if kind == "gated":
                self.gate = nn.Linear(width, spec["mid"], bias=False)
            if kind == "sequence":
                self.into = nn.Linear(width, width)
                self.norm = nn.LayerNorm(width)
        elif kind == "attention":
            self.norm = nn.LayerNorm(width)
            self.q, self.k, self.v = (nn.Linear(width, width, bias=bias) for bias in (True, False, True))
            self.o = nn.Linear(width, width)
        elif kind == "multihead":
            self.attention = nn.MultiheadAttention(width, spec["heads"], batch_first=True)
        elif kind == "recurrent":
            self.cell = RECURRENT[spec["cell"]](width, spec["out"] // (2 if spec["both"] else 1), num_layers=spec["layers"], batch_first=True, bidirectional=spec["both"])
        elif kind == "norm":
            self.norm = nn.GroupNorm(spec["groups"], width) if spec["norm"] == "GroupNorm" else NORMS[spec["norm"]](width)
        elif kind == "conv":
            self.conv = nn.Conv2d(width, spec["out"], 3, stride=spec["stride"], padding=1)
        elif kind == "own":
            self.scale = nn.Parameter(torch.zeros(width))
            self.shift = nn.Parameter(torch.zeros(width))
        elif kind == "embedding":
            self.table = nn.Embedding(spec["rows"], width)
        elif kind == "merge":
            self.fc = nn.Linear(spec["second"], width)
        elif kind == "drop":
            self.drop = nn.Dropout(0.5)

    def forward(self, x, second=None):
        spec = self.spec
        kind = spec["kind"]
        act = ACTS.get(spec.get("act"), lambda y: y)
        if kind == "linear":
            y = act(self.fc(x))
        elif kind == "mlp":
            y = self.down(act(self.up(x)))
        elif kind == "gated":
            y = self.down(act(self.gate(x)) * self.up(x))
        elif kind == "sequence":
            y = self.down(act(self.up(self.norm(self.into(x)))))
        elif kind == "attention":
            h = self.norm(x)
            q, k, v = (part(h).unflatten(-1, (-1, spec["width"] // spec["heads"])).transpose(1, 2) for part in (self.q, self.k, self.v))
            y = self.o(F.scaled_dot_product_attention(q, k, v, is_causal=spec["causal"]).transpose(1, 2).flatten(2))
        elif kind == "multihead":
            y = self.attention(x, x, x, need_weights=False)[0]
        elif kind == "recurrent":
            y = self.cell(x)[0]
        elif kind == "norm":
            y = self.norm(x)
        elif kind == "conv":
            y = act(self.conv(x))
            if spec["pool"]:
                y = F.max_pool2d(y, 2) if spec["pool"] == "max" else F.avg_pool2d(y, 2)
        elif kind == "own":
            y = x * self.scale + self.shift
        elif kind == "embedding":
            return self.table(x)
        elif kind == "merge":
            h = act(self.fc(second))
            return x + (h if x.dim() == 2 else h.unsqueeze(1))
        elif kind == "drop":
            y = self.drop(x)
        elif kind == "mean":
            y = x.mean(dim=tuple(range(1, x.dim() - 1)) if spec["of"] == "sequence" else (2, 3))
        return x + y if spec.get("residual") else y


class Model(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.spec = spec
        self.blocks = nn.ModuleList([Block(block) for block in spec["blocks"]])
        for target, source in spec["tied"]:
            self.get_submodule(target).weight = self.get_submodule(source).weight

    def forward(self, x, second):
        for index in self.spec["order"]:
            x = self.blocks[index](x, second)
        return x


class Maker:
    """Makes one description."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.blocks, self.order, self.tied, self.styles = [], [], [], {}

    def chance(self, share):
        return self.random.random() < share

    def pick(self, *choices):
        return self.random.choice(choices)

    def add(self, **spec):
        self.blocks.append(spec)
        self.order.append(len(self.blocks) - 1)
        return f"blocks.{len(self.blocks) - 1}"

    def act(self):
        return self.pick(*ACTS)

    def alone(self, name):
        """Perhaps divides a layer that stands alone."""
        if self.chance(0.6):
            self.styles[name] = self.pick("column, gathered", "row, of whole")

    def linear(self, width, out):
        name = self.add(kind="linear", width=width, out=out, bias=self.chance(0.8), act=self.act(), residual=width == out and self.chance(0.4), spare=self.chance(0.12))
        self.alone(f"{name}.fc")

    def wide(self, width):
        kind = self.pick("mlp", "gated")
        name = self.add(kind=kind, width=width, mid=self.random.randint(5, 12), act=self.act(), residual=self.chance(0.7))
        if not self.chance(0.75):
            return self.alone(f"{name}.up")
        for part in ["up", "gate"] if kind == "gated" else ["up"]:
            self.styles[f"{name}.{part}"] = "column"
        self.styles[f"{name}.down"] = "row"

    def sequence(self, width):
        name = self.add(kind="sequence", width=width, mid=self.random.randint(5, 12), act=self.act(), residual=True)
        self.styles |= {f"{name}.into": "row, to sequence", f"{name}.norm": "sequence", f"{name}.up": "column, of sequence", f"{name}.down": "row"}

    def attention(self, width):
        if self.chance(0.3):
            return self.add(kind="multihead", width=width, heads=2, residual=self.chance(0.7))
        heads = 4 if width % 4 == 0 and self.chance(0.5) else 2
        name = self.add(kind="attention", width=width, heads=heads, causal=self.chance(0.5), residual=self.chance(0.8))
        if self.chance(0.8):
            self.styles |= {f"{name}.{part}": f"column of {heads} heads" for part in "qkv"} | {f"{name}.o": "row"}

    def norm(self, width, *norms):
        kind = self.pick(*norms)
        self.add(kind="norm", width=width, norm=kind, groups=2 if width % 2 == 0 else 1)

    def tie(self, width):
        """Adds two layers with one weight."""
        names = [self.add(kind="linear", width=width, out=width, bias=True, act=self.act(), residual=False, spare=False) for _ in range(2)]
        self.tied.append([f"{names[1]}.fc", f"{names[0]}.fc"])
        if self.chance(0.5):
            style = self.pick("column, gathered", "row, of whole")
            self.styles |= {f"{name}.fc": style for name in names}

    def any_shape(self, width):
        """Adds a block that takes rows and sequences."""
        choice = self.random.random()
        if choice < 0.3:
            self.linear(width, self.random.randint(5, 12))
        elif choice < 0.6:
            self.wide(width)
        elif choice < 0.68:
            self.add(kind="own", width=width)
        elif choice < 0.76:
            self.add(kind="drop")
        elif choice < 0.88:
            self.tie(width)
        else:
            self.again()
        return self.width

    def again(self):
        """Applies an earlier block that does not change the width once more, if the current width fits."""
        fits = [i for i, block in enumerate(self.blocks) if block["kind"] in ("mlp", "gated", "attention", "sequence") and block["width"] == self.width and (self.is_sequence or block["kind"] in ("mlp", "gated"))]
        if fits:
            self.order.append(self.pick(*fits))

    @property
    def width(self):
        block = self.blocks[self.order[-1]] if self.order else {}
        return block.get("out") or block.get("width") or self.last_width

    def merge(self, second):
        name = self.add(kind="merge", width=self.width, second=second, act=self.act())
        self.alone(f"{name}.fc")


def described(seed):
    maker = Maker(seed)
    chance, pick, rng = maker.chance, maker.pick, maker.random
    kind = pick("rows", "rows", "sequence", "sequence", "tokens", "image")
    width = rng.randint(5, 12)
    second = rng.randint(3, 6) if chance(0.35) else None
    maker.last_width = width
    maker.is_sequence = kind in ("sequence", "tokens")
    if kind == "image":
        spec = image(maker)
    elif kind == "rows":
        spec = {"input": [width]}
    else:
        positions = pick(4, 6)
        if kind == "tokens":
            rows = rng.randint(9, 15)
            name = maker.add(kind="embedding", rows=rows, width=width)
            if chance(0.5):
                maker.styles[f"{name}.table"] = "row"
            spec = {"input": [positions], "tokens": rows}
        else:
            spec = {"input": [positions, width]}
    if maker.is_sequence:
        sequences(maker, second)
    for _ in range(rng.randint(1, 3)):
        steps(maker, lambda: maker.any_shape(maker.width), lambda: maker.norm(maker.width, "LayerNorm", "RMSNorm", "BatchNorm1d"))
    if second is not None and not any(block["kind"] == "merge" for block in maker.blocks):
        maker.merge(second)
    out = rng.randint(3, 6)
    name = maker.add(kind="linear", width=maker.width, out=out, bias=True, act=None, residual=False, spare=False)
    maker.alone(f"{name}.fc")
    spec |= {"second": second, "loss": pick("squares", "classes"), "blocks": maker.blocks, "order": maker.order, "tied": maker.tied}
    return maker, spec


def steps(maker, *kinds):
    """Adds one block of one of these kinds, and keeps the width that follows."""
    maker.pick(*kinds)()
    maker.last_width = maker.width


def image(maker):
    channels, size = maker.pick(2, 3), maker.pick(6, 8)
    maker.last_width = channels
    side = size
    for _ in range(maker.random.randint(1, 2)):
        pool = maker.pick(None, "max", "mean") if side % 4 == 0 else None
        stride = 2 if pool is None and side % 2 == 0 and maker.chance(0.4) else 1
        maker.add(kind="conv", width=maker.width, out=maker.pick(4, 6), stride=stride, pool=pool, act=maker.act())
        side = side // 2 if pool or stride == 2 else side
        maker.last_width = maker.width
        if maker.chance(0.6):
            maker.norm(maker.width, "GroupNorm", "BatchNorm2d")
            maker.last_width = maker.width
    maker.add(kind="mean", of="image", width=maker.width)
    return {"input": [channels, size, size]}


def sequences(maker, second):
    """Adds blocks that take sequences, and the mean over positions."""
    for _ in range(maker.random.randint(1, 3)):
        width = maker.width
        kinds = [lambda: maker.any_shape(width), lambda: maker.norm(width, "LayerNorm", "RMSNorm"), lambda: recurrent(maker, width), lambda: maker.sequence(width)]
        if width % 2 == 0:
            kinds += [lambda: maker.attention(width)] * 2
        steps(maker, *kinds)
    if second is not None and maker.chance(0.5):
        maker.merge(second)
        maker.last_width = maker.width
    maker.add(kind="mean", of="sequence", width=maker.width)
    maker.is_sequence = False


def recurrent(maker, width):
    both = maker.chance(0.3)
    out = 2 * maker.random.randint(2, 4) if both else maker.random.randint(3, 8)
    maker.add(kind="recurrent", cell=maker.pick(*RECURRENT), width=width, out=out, layers=maker.pick(1, 1, 2), both=both)


def planned(maker, spec, ranks):
    """Adds what trains, and how the ranks divide the model."""
    chance, pick = maker.chance, maker.pick
    blocks = range(len(spec["blocks"]))
    parameters = [name for name, _ in Model(spec).named_parameters()]
    head = blocks[-1]
    others = [name for name in parameters if not name.startswith(f"blocks.{head}.")]
    frozen = []
    if others and chance(0.4):
        frozen = [".".join(pick(*others).split(".")[:2]) + "." if chance(0.7) else pick(*others)]
    drops = [i for i in blocks if spec["blocks"][i]["kind"] == "drop"]
    evaluated = sorted({*drops, *(i for i in blocks if chance(0.15))})
    whole = {int(name.split(".")[1]) for name in parameters}
    divides = chance(0.7)
    units = pick("none", "none", "DDP", "fullyShard", "fullyShard", "FSDP")
    shared = {int(name.split(".")[1]) for pair in spec["tied"] for name in pair}
    wrapped = [i for i in blocks if units == "fullyShard" and i in whole - shared and chance(0.4)]
    tp = 2 if divides else 1
    dp = 1 if units == "none" else ranks // tp
    spec |= {
        "frozen": frozen,
        "evaluated": evaluated,
        "tp": tp,
        "dp": dp,
        "styles": maker.styles if divides else {},
        "units": units,
        "wrapped": wrapped,
        "checkpointed": [i for i in blocks if chance(0.15) and spec["blocks"][i]["kind"] not in ("embedding", "drop")],
        "backward": pick("eager", "eager", "gradients"),
        # Each part has at least two rows, which batch norms need.
        "micro": pick(1, 1, 2) if dp <= 2 else 1,
        # The cell itself applies one block after another.
        "apart": units == "none" and chance(0.3),
        "penalty": pick("before", "after") if units == "none" and not divides and chance(0.3) else None,
    }
    return spec


def rows(number, *shape):
    return scattered(ROWS * math.prod(shape), number, 4.0).reshape(ROWS, *shape)


def loss_of(spec, model, part, dtype):
    """The loss of one part of the rows; `part` is (index, count)."""
    own = slice(part[0] * ROWS // part[1], (part[0] + 1) * ROWS // part[1])
    if "tokens" in spec:
        count = ROWS * spec["input"][0]
        x = torch.tensor([(7 * i + 3) % spec["tokens"] for i in range(count)]).reshape(ROWS, -1)[own]
    else:
        x = rows(100, *spec["input"])[own].to(dtype)
    second = None if spec["second"] is None else rows(101, spec["second"])[own].to(dtype)
    y = model(x, second)
    if spec["loss"] == "squares":
        loss = F.mse_loss(y, rows(102, y.shape[1])[own].to(dtype))
    else:
        loss = F.cross_entropy(y, torch.tensor([(7 * i + 3) % y.shape[1] for i in range(ROWS)])[own])
    if spec["penalty"]:
        loss = loss + sum(parameter.square().sum() for parameter in model.parameters() if parameter.requires_grad) * 0.01
    return loss


def recorded(seed, ranks):
    """The first of the seed's models whose gradients float32 can hold: a norm of nearly equal numbers magnifies rounding."""
    for attempt in range(100):
        spec = planned(*described(f"{seed} {attempt}"), ranks)
        losses, gradients = trained(spec, torch.float64)
        rounded = [trained(spec, torch.float64, jitter)[1] for jitter in (1, 2, 3)]
        if is_stable(gradients, trained(spec, torch.float32)[1]) and all(is_stable(gradients, other, 0.5) for other in rounded):
            return with_gradients(seed, spec, losses, gradients)
    raise SystemExit(f"seed {seed} has no stable model")


def with_gradients(name, spec, losses, gradients):
    digests = {parameter: digest(gradient) for parameter, gradient in gradients.items()}
    return {"name": name, **spec, "losses": losses, "gradients": digests}


def trained(spec, dtype, jitter=None):
    """
    Runs forward and backward of the whole model; returns the losses, and the gradients by name. A jitter changes the outputs of all
    modules and their gradients by up to 5e-7 of their size: about as much as chains of float32 operations differ from float64.
    """
    model = Model(spec)
    with torch.no_grad():
        for place, (name, parameter) in enumerate(sorted(model.named_parameters())):
            base = 1 if ".norm." in name and name.endswith("weight") else 0
            parameter.copy_(scattered(parameter.numel(), place).reshape(parameter.shape) + base)
            parameter.requires_grad = not any(name.startswith(part) for part in spec["frozen"])
        for name, buffer in model.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                buffer.copy_(scattered(buffer.numel(), 7) + (1 if name.endswith("var") else 0))
    model = model.to(dtype)
    if jitter is not None:
        for module in model.modules():
            module.register_forward_hook(lambda _, inputs, output: jittered(output, jitter))
    for index in spec["evaluated"]:
        model.blocks[index].eval()
    losses = []
    for micro in range(spec["micro"]):
        parts = [(replica * spec["micro"] + micro, spec["dp"] * spec["micro"]) for replica in range(spec["dp"])]
        loss = sum(loss_of(spec, model, part, dtype) for part in parts) / spec["dp"]
        loss.backward()
        losses.append(short(loss))
    return losses, {name: parameter.grad for name, parameter in model.named_parameters()}


def jittered(output, number):
    if not isinstance(output, torch.Tensor) or not output.is_floating_point():
        return output
    noise = 1 + 2**-20 * scattered(output.numel(), 50 + number).to(output.dtype).reshape(output.shape)
    changed = output * noise
    if changed.requires_grad:
        changed.register_hook(lambda gradient: gradient * noise)
    return changed


def is_stable(gradients, rounded, part=0.2):
    """Whether gradients differ by at most a part of the bounds of suite.ts."""
    largest = max(gradient.norm() for gradient in gradients.values() if gradient is not None)
    return all(
        gradient is None or (gradient - rounded[name]).norm() <= part * (1e-5 * gradient.norm() + 1e-6 * largest)
        for name, gradient in gradients.items()
    )


def digest(gradient):
    if gradient is None:
        return None
    flat = gradient.reshape(-1)
    products = [short(flat @ scattered(flat.numel(), number, math.sqrt(12)).double()) for number in (11, 12, 13)]
    return [short(flat.norm()), *products]


def short(value):
    return float(f"{value.item():.8g}")


def linear(width, out, act=None):
    return {"kind": "linear", "width": width, "out": out, "bias": True, "act": act, "residual": False, "spare": False}


PLAIN = {"second": None, "loss": "squares", "tied": [], "frozen": [], "evaluated": [], "wrapped": [], "checkpointed": [], "micro": 1, "apart": False, "penalty": None}
UP_AND_DOWN = {"blocks.0.fc": "column", "blocks.1.fc": "row"}
SEQUENCE = {"kind": "sequence", "width": 7, "mid": 5, "act": "tanh", "residual": True}
# The first divided layer reads data, which needs no gradient.
OF_DATA = {
    "a column of data, then a row": {"input": [8], "blocks": [linear(8, 32, "relu"), linear(32, 8)], "styles": UP_AND_DOWN},
    "odd widths": {"input": [7], "blocks": [linear(7, 31, "relu"), linear(31, 5)], "styles": UP_AND_DOWN},
    "a gathered column of data": {"input": [6], "blocks": [linear(6, 9, "gelu"), linear(9, 3)], "styles": {"blocks.0.fc": "column, gathered", "blocks.1.fc": "column, gathered"}},
    "two columns of one input": {"input": [6], "blocks": [{"kind": "gated", "width": 6, "mid": 10, "act": "silu", "residual": False}, linear(6, 4)], "styles": {"blocks.0.up": "column", "blocks.0.gate": "column", "blocks.0.down": "row"}},
    "a row of data": {"input": [7], "blocks": [linear(7, 12, "tanh"), linear(12, 4)], "styles": {"blocks.0.fc": "row, of whole", "blocks.1.fc": "row, of whole"}},
    "a sequence of data": {"input": [4, 7], "blocks": [SEQUENCE, {"kind": "mean", "of": "sequence", "width": 7}, linear(7, 4)], "styles": {"blocks.0.into": "row, to sequence", "blocks.0.norm": "sequence", "blocks.0.up": "column, of sequence", "blocks.0.down": "row"}},
    "a column of a frozen embedding, run again in backward": {"input": [4], "tokens": 9, "blocks": [{"kind": "embedding", "rows": 9, "width": 6}, {"kind": "mlp", "width": 6, "mid": 11, "act": "relu", "residual": True}, {"kind": "mean", "of": "sequence", "width": 6}, linear(6, 3)], "styles": {"blocks.0.table": "row", "blocks.1.up": "column", "blocks.1.down": "row"}, "frozen": ["blocks.0."], "checkpointed": [1]},
}
PLANS = [("none", "eager"), ("fullyShard", "gradients"), ("DDP", "eager"), ("FSDP", "gradients")]


def of_data():
    for name, own in OF_DATA.items():
        order = list(range(len(own["blocks"])))
        for units, backward in PLANS:
            spec = {**PLAIN, **own, "order": order, "tp": 2, "dp": 1, "units": units, "backward": backward}
            yield with_gradients(f"{name}, {units}, {backward}", spec, *trained(spec, torch.float64))


def main():
    torch.set_num_threads(1)
    numbers = [int(text) for text in sys.argv[1:]]
    count, first, ranks = numbers + [NUM_STORED, FIRST_STORED, 2][len(numbers) :]
    models = [] if numbers else list(of_data())
    models += [recorded(seed, ranks) for seed in range(first, first + count)]
    made_by = json.dumps(f"test/data/random_models_reference.py, torch {torch.__version__}")
    lines = [json.dumps(model, separators=(",", ":")) for model in models]
    text = '{"made_by":' + made_by + ',"models":[\n' + ",\n".join(lines) + "\n]}\n"
    if numbers:
        sys.stdout.write(text)
        return
    with open(os.path.join(HERE, "random_models_reference.json"), "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
