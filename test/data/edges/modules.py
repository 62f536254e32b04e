"""Rows of the layers of torch.nn: a row's inputs are those of the call, then the parameters in torch's order."""

import re

import torch
from torch import nn

from .rows import INF, NAN, b, f, i, ramp, row

# The relative error of sums in float32, which both sides add in their own order.
TOLERANCE = 1e-5
# The modules of classes that torch.nn does not have, by name; models.py adds them.
OWN = {}


class SyncBatchNorm(nn.modules.batchnorm._BatchNorm):
    """The batch norm of one rank: torch's own SyncBatchNorm needs a GPU."""

    def _check_input_dim(self, x):
        pass


def in_python(options):
    """Options of this engine by their names in Python; weights are tensors, and sizes tuples."""
    named = {re.sub("[A-Z]", lambda found: "_" + found.group().lower(), name): value for name, value in options.items()}
    return {name: torch.tensor(value) if name.endswith("weight") else tuple(value) if isinstance(value, list) else value for name, value in named.items()}


def made(name, given):
    """The layer that `new nn.Name(...given)` makes."""
    if name in OWN:
        return OWN[name](*given)
    has_options = given and isinstance(given[-1], dict)
    options = in_python(given[-1]) if has_options else {}
    plain = [tuple(each) if isinstance(each, list) else each for each in (given[:-1] if has_options else given)]
    if name == "Sequential":
        return nn.Sequential(*(made(*each) for each in given))
    if name == "TransformerEncoder":
        width, heads, count = plain
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(width, heads, **options), count, enable_nested_tensor=False)
    return (SyncBatchNorm if name == "SyncBatchNorm" else getattr(nn, name))(*plain, **options)


def flat(result):
    return [result] if isinstance(result, torch.Tensor) else [one for part in result if part is not None for one in flat(part)]


def layer(name, given, *inputs, options=(), call=None, eval=False, tol=TOLERANCE, grad=True):
    """A row: `options` names the last inputs of the call, `call` has its other options; results are outputs, then running statistics."""
    sample = made(name, given)
    sizes = [list(parameter.shape) for parameter in sample.parameters()]
    parameters = [ramp(size, round(2 - 0.1 * k, 2), round(0.07 * k - 0.9, 2)) for k, size in enumerate(sizes)]

    def run(*tensors, **_):
        module = made(name, given).train(not eval)
        tensors = [one.long() if one.dtype == torch.int32 else one for one in tensors]
        count = len(inputs) - len(options)
        named = dict(zip(options, tensors[count : len(inputs)]))
        values = tensors[len(inputs) :]
        names = [each for each, _ in module.named_parameters()]
        given_inputs = [tensors[0], tuple(tensors[1:count])] if name == "LSTM" and count > 1 else tensors[:count]
        result = torch.func.functional_call(module, dict(zip(names, values)), tuple(given_inputs), in_python({**named, **(call or {})}))
        statistics = [each for each in module.buffers() if each.dtype == torch.float32] if isinstance(module, nn.modules.batchnorm._BatchNorm) else []
        return [*flat(result), *statistics]

    more = {"options": list(options)} if options else {}
    row(f"nn.{name}", run, *inputs, *parameters, tol=tol, grad=grad, new=given, **more, **({"with": call} if call else {}), **({"eval": True} if eval else {}))


# Products.
for shape in [[2, 3], [0, 3], [1, 3], [2, 1, 3], [2, 0, 3], [3]]:
    layer("Linear", [3, 4], ramp(shape, 3, -1.3))
layer("Linear", [1, 1, dict(bias=False)], f([2.0], [1, 1]))
layer("Linear", [2, 2], f([NAN, 1.0, 2.0, 3.0], [2, 2]))
layer("Linear", [2, 2], f([INF, 1.0, -INF, 3.0], [2, 2]), grad=False)
layer("Linear", [2, 2], ramp([2, 3]))
for labels, shape in [([3, 0, 3], [1, 3]), ([], [0, 2]), ([1], [1]), ([4, 4, 4, 4], [2, 2])]:
    layer("Embedding", [5, 2], i(labels, shape))
    layer("Embedding", [5, 2, dict(paddingIdx=4)], i(labels, shape))
    layer("Embedding", [5, 2, dict(paddingIdx=-2)], i(labels, shape))
layer("Embedding", [1, 1], i([0, 0]))
layer("Embedding", [5, 2], i([5]))

# Convolutions.
for given, shapes in {
    (2, 3, 3): [[2, 2, 4, 5], [1, 2, 3, 3], [0, 2, 4, 4], [2, 3, 4], [1, 2, 2, 3]],
    (1, 1, 1): [[1, 1, 1, 1], [2, 1, 3, 1]],
}.items():
    for shape in shapes:
        layer("Conv2d", list(given), ramp(shape, 3, -1))
for options in [dict(stride=5), dict(stride=[3, 1], padding=1), dict(dilation=2), dict(padding=[0, 3]), dict(padding="same"), dict(padding=2, dilation=[1, 3], stride=2), dict(padding="valid"), dict(bias=False, padding="same", dilation=3)]:
    layer("Conv2d", [2, 4, [2, 3], options], ramp([2, 2, 6, 7], 3, -1))
layer("Conv2d", [4, 8, 2, dict(groups=4)], ramp([1, 4, 3, 3], 3, -1))
layer("Conv2d", [4, 6, 2, dict(groups=2, stride=3, padding=1)], ramp([2, 4, 5, 4], 3, -1))
layer("Conv2d", [1, 1, 2], f([NAN, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [1, 1, 3, 3]))
layer("Conv2d", [1, 1, 2, dict(padding=1)], f([INF, 1.0, 2.0, -INF], [1, 1, 2, 2]), grad=False)
for options in [dict(), dict(stride=4), dict(padding=2, dilation=2), dict(padding="same"), dict(groups=2, bias=False)]:
    for shape in [[2, 4, 7], [0, 4, 7], [4, 5]]:
        layer("Conv1d", [4, 2, 3, options], ramp(shape, 3, -1))
layer("Conv1d", [1, 1, 1], ramp([1, 1, 1], 3, -1))
layer("Conv1d", [1, 1, 3], ramp([1, 1, 2], 3, -1))
for options in [dict(), dict(stride=3), dict(stride=2, padding=1, outputPadding=1), dict(groups=2), dict(dilation=2, bias=False), dict(stride=4, dilation=[1, 2], padding=[0, 2])]:
    for shape in [[2, 4, 2, 3], [1, 4, 1, 1], [0, 4, 2, 3]]:
        layer("ConvTranspose2d", [4, 2, 3, options], ramp(shape, 3, -1))

# Norms.
for name in ["LayerNorm", "RMSNorm"]:
    for given, shape in [([4], [2, 3, 4]), ([4], [0, 4]), ([4], [4]), ([[3, 4]], [2, 3, 4])]:
        layer(name, given, ramp(shape, 5, -2))
        layer(name, [*given, dict(elementwiseAffine=False, eps=1e-3)], ramp(shape, 5, -2))
    # Of one or two elements, the gradient is what eps leaves of it; a larger eps leaves more than rounding.
    for size, shape in [(1, [3, 1]), ([2, 1], [1, 2, 1])]:
        layer(name, [size, dict(eps=1)], ramp(shape, 5, -2))
    for values in [[2.0, 2.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0], [1e-20, -1e-20, 2e-20, 0.0]]:
        layer(name, [4], f(values, [1, 4]), tol=3e-5)
    for values in [[NAN, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0], [INF, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0]]:
        layer(name, [4], f(values, [2, 4]), grad=False)
layer("LayerNorm", [4, dict(bias=False)], ramp([2, 4], 5, -2))
for given, shape in [([2, 4], [2, 4, 3]), ([1, 4], [1, 4, 2, 2]), ([4, 4], [2, 4, 3]), ([2, 4], [0, 4, 2]), ([2, 2, dict(affine=False)], [3, 2, 5]), ([1, 1, dict(eps=1)], [2, 1, 2])]:
    layer("GroupNorm", given, ramp(shape, 3, -1), tol=3e-5)
layer("GroupNorm", [1, 2, dict(eps=1)], f([2.0] * 6, [1, 2, 3]))
layer("GroupNorm", [1, 2], f([NAN, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0], [2, 2, 2]), grad=False)
for name, shapes in {"BatchNorm1d": [[4, 3], [2, 3, 4], [2, 3, 1], [2, 3], [1, 3, 2], [1, 3], [0, 3]], "BatchNorm2d": [[2, 3, 2, 3], [1, 3, 1, 2], [1, 3, 1, 1], [0, 3, 2, 2]], "SyncBatchNorm": [[4, 3], [2, 3, 2, 2], [0, 3]]}.items():
    for shape in shapes:
        for options in [dict(eps=0.1), dict(affine=False, momentum=0.3, eps=0.1), dict(trackRunningStats=False, eps=0.01), dict(momentum=None, eps=0.1)]:
            layer(name, [3, options], ramp(shape, 3, -1), tol=5e-5)
        layer(name, [3], ramp(shape, 3, -1), eval=True)
    layer(name, [3, dict(trackRunningStats=False)], ramp(shapes[0], 3, -1), eval=True)
layer("BatchNorm1d", [2], f([NAN, 1.0, 2.0, 3.0], [2, 2]), grad=False)
layer("BatchNorm1d", [2], f([1.0, 1.0, 1.0, 3.0], [2, 2]), tol=3e-5)

# Attention.
SELF = [ramp([2, 3, 4], 2, -1)] * 3
for given in [[4, 2], [4, 1, dict(batchFirst=True)], [4, 4, dict(bias=False)]]:
    layer("MultiheadAttention", given, *SELF)
    layer("MultiheadAttention", given, *SELF, call=dict(needWeights=False))
    layer("MultiheadAttention", given, *SELF, call=dict(averageAttnWeights=False))
layer("MultiheadAttention", [4, 2, dict(kdim=3, vdim=5)], ramp([1, 2, 4], 2, -1), ramp([3, 2, 3], 2, -1), ramp([3, 2, 5], 2, -1))
layer("MultiheadAttention", [2, 2], ramp([1, 1, 2], 2, -1), ramp([1, 1, 2], 3, -1), ramp([1, 1, 2], 1, -1))
layer("MultiheadAttention", [4, 2], *[ramp([3, 4], 2, -1)] * 3)
layer("MultiheadAttention", [4, 2], *[ramp([3, 0, 4])] * 3, call=dict(needWeights=False))
layer("MultiheadAttention", [4, 2], *[ramp([3, 0, 4])] * 3)
# Queries without a key have 0, as in torch without weights; with weights, torch has NaN for them.
PADDED = {"some": [0, 0, 1, 0, 1, 1], "everything": [0, 0, 0, 1, 1, 1]}
for name, weights in [("some", False), ("some", True), ("everything", False)]:
    layer("MultiheadAttention", [4, 2, dict(batchFirst=True)], *SELF, b(PADDED[name], [2, 3]), options=["keyPaddingMask"], call=dict(needWeights=weights))
CAUSAL = [0, 1, 1, 0, 0, 1, 0, 0, 0]
for mask, weights in [(CAUSAL, False), (CAUSAL, True), ([0, 1, 1, 1, 1, 1, 0, 0, 0], False), ([1] * 9, False)]:
    layer("MultiheadAttention", [4, 2, dict(batchFirst=True)], *SELF, b(mask, [3, 3]), options=["attnMask"], call=dict(needWeights=weights))
layer("MultiheadAttention", [4, 2, dict(batchFirst=True)], *SELF, b(CAUSAL, [3, 3]), b(PADDED["some"], [2, 3]), options=["attnMask", "keyPaddingMask"])
layer("MultiheadAttention", [2, 1], *[f([NAN, 1.0, 2.0, 3.0], [2, 1, 2])] * 3, grad=False)
for options in [dict(), dict(activation="gelu", normFirst=True), dict(batchFirst=True, bias=False)]:
    for shape in [[3, 2, 4], [1, 1, 4], [3, 4], [3, 0, 4]]:
        layer("TransformerEncoderLayer", [4, 2, {"dimFeedforward": 3, "dropout": 0.0, **options}], ramp(shape, 2, -1), tol=5e-5)
ENCODER = {"dimFeedforward": 3, "dropout": 0.0, "batchFirst": True}
for mask in [[0, 0, 1, 0, 1, 1], [0, 0, 0, 1, 1, 1]]:
    layer("TransformerEncoderLayer", [4, 2, ENCODER], ramp([2, 3, 4], 2, -1), b(mask, [2, 3]), options=["srcKeyPaddingMask"], tol=5e-5)
layer("TransformerEncoder", [4, 2, 2, ENCODER], ramp([2, 3, 4], 2, -1), tol=5e-5)
layer("TransformerEncoder", [4, 2, 1, ENCODER], ramp([1, 1, 4], 2, -1), tol=5e-5)
layer("TransformerEncoder", [4, 2, 1, ENCODER], ramp([0, 3, 4], 2, -1), tol=5e-5)
layer("TransformerEncoder", [4, 2, 2, ENCODER], ramp([2, 3, 4], 2, -1), b(CAUSAL, [3, 3]), options=["mask"], tol=5e-5)

# Recurrent layers.
for name in ["LSTM", "GRU", "RNN"]:
    states = 2 if name == "LSTM" else 1
    for shape in [[3, 2, 3], [1, 1, 3], [3, 3], [1, 2, 3], [0, 2, 3], [3, 0, 3]]:
        layer(name, [3, 2], ramp(shape, 3, -1))
    layer(name, [1, 1], ramp([2, 1, 1], 3, -1))
    layer(name, [3, 2, dict(numLayers=2, bidirectional=True, batchFirst=True)], ramp([2, 3, 3], 3, -1), *[ramp([4, 2, 2], 2, -1)] * states)
    layer(name, [3, 2, dict(bias=False)], ramp([2, 3], 3, -1), *[ramp([1, 2], 2, -1)] * states)
    layer(name, [1, 2], f([NAN, 1.0], [2, 1, 1]), grad=False)
    layer(name, [1, 2], f([INF, -INF], [2, 1, 1]), grad=False)
    layer(name, [1, 2], f([1000.0, -1000.0], [2, 1, 1]))
layer("RNN", [3, 2, dict(nonlinearity="relu")], ramp([3, 1, 3], 3, -1))

# Pools and shapes.
POOLED = [ramp([2, 2, 5, 4], 3, -1), ramp([1, 1, 1, 1]), f([], [0, 2, 4, 4]), f([2.0] * 16, [1, 1, 4, 4]), ramp([2, 4, 4])]
for spec in POOLED:
    for options in [dict(), dict(stride=3), dict(stride=1, padding=1), dict(padding=1, ceilMode=True)]:
        layer("MaxPool2d", [2, options] if options else [2], spec)
        layer("AvgPool2d", [2, options] if options else [2], spec)
    layer("MaxPool2d", [2, dict(dilation=2)], spec)
    layer("AvgPool2d", [2, dict(padding=1, countIncludePad=False)], spec)
    for size in [1, 3, [None, 2]]:
        layer("AdaptiveAvgPool2d", [size], spec)
for spec in [ramp([2, 2, 7], 3, -1), ramp([1, 1, 1]), f([], [0, 2, 4]), f([2.0] * 5, [1, 1, 5]), ramp([2, 5])]:
    for options in [dict(), dict(stride=3), dict(stride=1, padding=1), dict(padding=1, ceilMode=True)]:
        layer("MaxPool1d", [2, options] if options else [2], spec)
        layer("AvgPool1d", [2, options] if options else [2], spec)
    layer("AdaptiveAvgPool1d", [3], spec)
for values in [[NAN, 3.0, 3.0, 3.0], [-INF, -INF, -INF, -INF], [INF, 1.0, 2.0, -INF]]:
    for name in ["MaxPool2d", "AvgPool2d"]:
        layer(name, [2], f(values, [1, 1, 2, 2]), grad=False)
    for name in ["MaxPool1d", "AvgPool1d"]:
        layer(name, [2], f(values, [1, 1, 4]), grad=False)
for shape in [[2, 3, 4], [0, 3, 4], [2, 0, 4], [1, 1], [3]]:
    layer("Flatten", [], ramp(shape))
    layer("Flatten", [0], ramp(shape))
layer("Flatten", [0, 1], ramp([2, 3, 4]))
for given, shape in [([1, [2, 3]], [2, 6]), ([-1, [1, 1]], [2, 1]), ([1, [2, -1]], [2, 6]), ([1, [2, 3]], [0, 6]), ([0, [2, 2]], [4, 3]), ([1, [2, 4]], [2, 6])]:
    layer("Unflatten", given, ramp(shape))
for factor in [1, 2, [3, 1]]:
    for spec in [ramp([2, 2, 2, 3]), ramp([1, 1, 1, 1]), f([NAN, INF, -INF, -0.0], [1, 1, 2, 2])]:
        layer("Upsample", [dict(scaleFactor=factor)], spec)
layer("Upsample", [dict(scaleFactor=2)], f([], [0, 1, 2, 2]))

# Elements.
SPECIAL = f([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 100.0, -100.0, 1e-40, 1e38, -1e38, 6.0, 20.0, -20.0])
ORDINARY = f([NAN, 0.0, -0.0, 1.0, -1.0, 100.0, -100.0, 1e-40, 1e38, -1e38])
layer("GELU", [], f([INF]), grad=False)
for given in [["ReLU", []], ["ReLU6", []], ["LeakyReLU", []], ["LeakyReLU", [0.3]], ["ELU", []], ["ELU", [0.5]], ["GELU", []], ["GELU", [dict(approximate="tanh")]], ["SiLU", []], ["Mish", []], ["Softplus", []], ["Tanh", []], ["Sigmoid", []], ["Identity", []]]:
    # torch's vectors of eight have NaN as the GELU of infinities, its single numbers do not.
    layer(*given, ORDINARY if given == ["GELU", []] else SPECIAL, grad=False)
    for spec in [ramp([2, 3], 6, -3), f([], [0, 3]), f([0.5], [1, 1])]:
        layer(*given, spec)
for name in ["Softmax", "LogSoftmax"]:
    for dim, shape in [(1, [2, 3, 2]), (-1, [2, 3]), (0, [3]), (1, [2, 1]), (-1, [0, 3])]:
        layer(name, [dim], ramp(shape, 6, -3))
    layer(name, [-1], f([1.0, -INF, 2.0, -INF, -INF, -INF], [2, 3]), grad=False)
    layer(name, [-1], f([NAN, 1.0, 1000.0, 0.0], [2, 2]), grad=False)
for name, shape in {"Dropout": [2, 3], "Dropout2d": [2, 3, 1, 2]}.items():
    for given in [[0.5], [0], [1]]:
        layer(name, given, ramp(shape), eval=True)
        if given != [0.5]:
            layer(name, given, ramp(shape))
    layer(name, [0.5], f([NAN, INF, -INF, -0.0], [2, 2, 1, 1]), eval=True)
    layer(name, [0], f([], [0, *shape[1:]]))
layer("Sequential", [["Linear", [2, 3]], ["ReLU", []], ["Linear", [3, 1]]], ramp([2, 2], 3, -1))
layer("Sequential", [["Linear", [2, 3]], ["LayerNorm", [3]]], f([], [0, 2]))
layer("Sequential", [], ramp([2, 2]))

# Losses of classes.
WEIGHT = [0.5, 2.0, 1.0, 0.25]
for reduction in ["mean", "sum", "none"]:
    for ignored in [-100, 1]:
        for labels in [[0, 3, 2], [0, ignored, 2], [ignored] * 3]:
            for options in [{}, dict(weight=WEIGHT)]:
                options = {"reduction": reduction, **options, **({"ignoreIndex": ignored} if ignored >= 0 else {})}
                layer("NLLLoss", [options], ramp([3, 4], -5, -0.1), i(labels))
                for smoothing in [0.0, 0.2]:
                    layer("CrossEntropyLoss", [{**options, "labelSmoothing": smoothing}], ramp([3, 4], 5, -2), i(labels))
    layer("CrossEntropyLoss", [dict(reduction=reduction, labelSmoothing=1, weight=WEIGHT)], ramp([3, 4], 5, -2), i([0, -100, 2]))
    layer("CrossEntropyLoss", [dict(reduction=reduction)], ramp([3, 4], 5, -2), i([0, 4, 2]))
    for shape, labels, size in [([0, 4], [], [0]), ([2, 1], [0, 0], [2]), ([1, 4], [3], [1]), ([2, 3, 2], [0, 2, 1, -100], [2, 2])]:
        layer("CrossEntropyLoss", [dict(reduction=reduction)], ramp(shape, 5, -2), i(labels, size))
        layer("NLLLoss", [dict(reduction=reduction)], ramp(shape, -5, -0.1), i(labels, size))
    layer("CrossEntropyLoss", [dict(reduction=reduction, labelSmoothing=0.1)], f([1.0, -INF, 0.5, 2.0], [1, 4]), i([0]), grad=False)
    layer("CrossEntropyLoss", [dict(reduction=reduction)], f([1.0, -INF, 0.5, 2.0, NAN, 0.0, 0.0, 0.0], [2, 4]), i([1, -100]), grad=False)
layer("CrossEntropyLoss", [], ramp([4], 5, -2), i([2], []))

# Losses of elements.
PAIRS = [(ramp([2, 3], 2, -1), ramp([2, 3], 3, -1.2)), (f([1.0, 2.0, 0.0]), f([1.0, 2.0, -0.0])), (f([], [0, 3]), f([], [0, 3])), (f([2.0], [1, 1]), f([1.0], [1, 1])), (f([0.0, 1.0, -1.0]), f([1.0, 0.0, 0.0]))]
LOSSES = {"MSELoss": [{}], "L1Loss": [{}], "SmoothL1Loss": [{}, dict(beta=0.5), dict(beta=0)], "HuberLoss": [{}, dict(delta=0.3)], "BCEWithLogitsLoss": [{}]}
for reduction in ["mean", "sum", "none"]:
    for name, options in LOSSES.items():
        for left, right in PAIRS:
            for more in options:
                layer(name, [dict(reduction=reduction, **more)], left, right)
        layer(name, [dict(reduction=reduction)], f([NAN, 1.0, INF]), f([1.0, 1.0, 1.0]), grad=False)
    layer("BCEWithLogitsLoss", [dict(reduction=reduction, weight=[1.0, 0.5, 0.0], posWeight=[2.0, 1.0, 0.3])], ramp([2, 3], 4, -2), ramp([2, 3], 1, 0))
    layer("BCEWithLogitsLoss", [dict(reduction=reduction)], f([100.0, -100.0, 0.0, 1000.0]), f([1.0, 0.0, 0.5, 0.0]))
    layer("BCELoss", [dict(reduction=reduction)], f([0.2, 0.9, 0.5, 1e-20]), f([0.0, 1.0, 0.5, 1.0]))
    layer("BCELoss", [dict(reduction=reduction, weight=[1.0, 0.0, 3.0])], f([0.2, 0.9, 0.5]), f([0.0, 1.0, 0.5]))
    layer("BCELoss", [dict(reduction=reduction)], f([0.0, 1.0, 0.0, 1.0]), f([0.0, 1.0, 1.0, 0.0]), grad=False)
    layer("BCELoss", [dict(reduction=reduction)], f([], [0, 2]), f([], [0, 2]))
for reduction in ["mean", "sum", "none", "batchmean"]:
    for target in [False, True]:
        layer("KLDivLoss", [dict(reduction=reduction, logTarget=target)], f([-1.0, -2.0, -0.5, -3.0], [2, 2]), f([0.5, 0.5, 0.0, 1.0], [2, 2]), grad=False)
        layer("KLDivLoss", [dict(reduction=reduction, logTarget=target)], ramp([2, 3], -2, -0.1), ramp([2, 3], 0.5, 0.1))
    layer("KLDivLoss", [dict(reduction=reduction)], f([], [0, 2]), f([], [0, 2]))
