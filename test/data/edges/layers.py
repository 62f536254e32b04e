"""Rows of layers as functions, of losses and of pools in torch's layout."""

import torch
from torch.nn import functional as F

from .rows import INF, NAN, b, f, i, ramp, row

MASKED = [1.0, -INF, 0.5, 2.0, 0.1, -INF, -INF, 1.5, 0.3, 0.2, 0.9, -1.0]
REDUCTIONS = ["mean", "sum", "none"]

# Losses of classes.


def cross_entropy(x, target, weight=None, reduction="mean", smoothing=0.0):
    weight = None if weight is None else weight.detach()
    return F.cross_entropy(x, target.long() if target.dtype == torch.int32 else target, weight, reduction=reduction, label_smoothing=smoothing)


def nll(x, target, weight=None, reduction="mean"):
    return F.nll_loss(x, target.long(), None if weight is None else weight.detach(), reduction=reduction)


WEIGHT = f([0.5, 2.0, 1.0, 0.25])
for reduction in REDUCTIONS:
    for labels in [[0, 3, 2], [0, -100, 2], [-100, -100, -100]]:
        for more in [[], [WEIGHT]]:
            row("F.crossEntropy", cross_entropy, ramp([3, 4], 5, -2), i(labels), *more, reduction=reduction, smoothing=0)
            row("F.crossEntropy", cross_entropy, ramp([3, 4], 5, -2), i(labels), *more, reduction=reduction, smoothing=0.2)
            row("F.nllLoss", nll, ramp([3, 4], -5, -0.1), i(labels), *more, reduction=reduction)
    for labels in [[0, 3, 2], [0, -100, 2]]:
        for more in [[], [WEIGHT]]:
            row("F.crossEntropy", cross_entropy, f(MASKED, [3, 4]), i(labels), *more, reduction=reduction, smoothing=0)
    row("F.crossEntropy", cross_entropy, f(MASKED, [3, 4]), i([0, 3, 2]), reduction=reduction, smoothing=0.2, grad=False)
    row("F.crossEntropy", cross_entropy, f([NAN, NAN, NAN, NAN, 1.0, 2.0, 3.0, 4.0], [2, 4]), i([-100, 1]), reduction=reduction, smoothing=0, grad=False)
    row("F.crossEntropy", cross_entropy, f([1.0, 2.0, 3.0, 4.0, NAN, 0.0, 0.0, 0.0], [2, 4]), i([0, 1]), reduction=reduction, smoothing=0, grad=False)
    row("F.crossEntropy", cross_entropy, f([], [0, 4]), i([]), reduction=reduction, smoothing=0)
    row("F.crossEntropy", cross_entropy, f([3.0, 1.0], [2, 1]), i([0, 0]), reduction=reduction, smoothing=0)
    row("F.crossEntropy", cross_entropy, f([1000.0, 0.0, -1000.0, 0.0], [1, 4]), i([1]), reduction=reduction, smoothing=0)
    row("F.crossEntropy", cross_entropy, ramp([2, 3, 2], 4, -2), i([0, 2, 1, -100], [2, 2]), reduction=reduction, smoothing=0)
    row("F.crossEntropy", cross_entropy, ramp([2, 3], 4, -2), f([0.2, 0.3, 0.5, 0.0, 1.0, 0.0], [2, 3]), reduction=reduction, smoothing=0)
    row("F.crossEntropy", cross_entropy, f([1.0, -INF, 2.0], [1, 3]), f([0.5, 0.0, 0.5], [1, 3]), reduction=reduction, smoothing=0, grad=False)
    row("F.nllLoss", nll, f([-1.0, -INF, -0.5, -2.0], [2, 2]), i([0, 1]), reduction=reduction)
    row("F.nllLoss", nll, f([], [0, 4]), i([]), reduction=reduction)
row("F.crossEntropy", lambda x, target, reduction, smoothing: F.cross_entropy(x.double(), target.long()).float(), ramp([2, 100000], 7, -2), i([3, 70000]), reduction="mean", smoothing=0, grad=False, tol=2e-6)
row("F.crossEntropy", lambda x, target, reduction, smoothing: F.cross_entropy(x.double(), target.long()).float(), ramp([100000, 3], 7, -2), ramp([100000], 3, 0, "i"), reduction="mean", smoothing=0, grad=False, tol=2e-6)

# Losses of elements.
PAIRS = [(ramp([2, 3], 2, -1), ramp([2, 3], 3, -1.2)), (f([1.0, 2.0, 0.0]), f([1.0, 2.0, -0.0])), (f([], [0, 3]), f([], [0, 3])), (f([2.0], [1, 1]), f([1.0], [1, 1])), (f([0.0, 1.0, -1.0]), f([1.0, 0.0, 0.0]))]
ELEMENTWISE = {
    "F.mseLoss": F.mse_loss, "F.l1Loss": F.l1_loss, "F.smoothL1Loss": F.smooth_l1_loss, "F.huberLoss": F.huber_loss,
    "F.binaryCrossEntropyWithLogits": F.binary_cross_entropy_with_logits,
}  # fmt: skip
for name, call in ELEMENTWISE.items():
    for reduction in REDUCTIONS:
        for left, right in PAIRS:
            row(name, lambda x, y, reduction, call=call: call(x, y, reduction=reduction), left, right, reduction=reduction)
        row(name, lambda x, y, reduction, call=call: call(x, y, reduction=reduction), f([NAN, 1.0]), f([1.0, 1.0]), reduction=reduction, grad=False)
    row(name, lambda x, y, reduction, call=call: call(x.double(), y.double()).float(), ramp([1000000], 0.5, 0.3), ramp([1000000], 0.2, 0.2), reduction="mean", grad=False, tol=1e-6)
row("F.binaryCrossEntropyWithLogits", lambda x, y, reduction: F.binary_cross_entropy_with_logits(x, y, reduction=reduction), f([100.0, -100.0, 0.0, 1000.0]), f([1.0, 0.0, 0.5, 0.0]), reduction="none")
for reduction in REDUCTIONS:
    row("F.binaryCrossEntropy", lambda x, y, reduction: F.binary_cross_entropy(x, y, reduction=reduction), f([0.2, 0.9, 0.5, 1e-20]), f([0.0, 1.0, 0.5, 1.0]), reduction=reduction)
    row("F.binaryCrossEntropy", lambda x, y, reduction: F.binary_cross_entropy(x, y.detach(), reduction=reduction), f([0.0, 1.0, 0.0, 1.0]), f([0.0, 1.0, 1.0, 0.0]), reduction=reduction, grad=False)
    row("F.klDiv", lambda x, y, reduction: F.kl_div(x, y, reduction=reduction), f([-1.0, -2.0, -0.5, -3.0], [2, 2]), f([0.5, 0.5, 0.0, 1.0], [2, 2]), reduction=reduction, grad=False)
    row("F.klDiv", lambda x, y, reduction: F.kl_div(x, y, reduction=reduction), f([], [0, 2]), f([], [0, 2]), reduction=reduction)

# Directions.
for x, y in [(ramp([2, 3], 2, -1), ramp([2, 3], 3, -1.2)), (f([0.0, 0.0, 0.0], [1, 3]), f([1.0, 2.0, 2.0], [1, 3])), (f([], [0, 3]), f([], [0, 3])), (f([3.0, 4.0, 0.0], [1, 3]), f([-3.0, -4.0, 0.0], [1, 3]))]:
    row("F.cosineSimilarity", lambda a, c: F.cosine_similarity(a, c), x, y)

# Norms.
NORMED = [ramp([2, 3, 4], 5, -2), f([2.0, 2.0, 2.0, 2.0], [1, 4]), f([0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0], [2, 4]), f([], [0, 4])]
for spec in NORMED:
    row("F.layerNorm", lambda x, w, c: F.layer_norm(x, w.shape, w, c), spec, ramp([4], 1, 0.5), ramp([4], 1, -0.5), tol=1e-5)
    row("F.rmsNorm", lambda x, w: F.rms_norm(x, w.shape, w), spec, ramp([4], 1, 0.5), tol=1e-5)
row("F.layerNorm", lambda x, w, c: F.layer_norm(x, w.shape, w, c), f([1.0, 2.0, 3.0], [3, 1]), f([2.0]), f([0.5]))
row("F.layerNorm", lambda x, w, c: F.layer_norm(x, w.shape, w, c), f([NAN, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0], [2, 4]), ramp([4], 1, 0.5), ramp([4], 1, -0.5), grad=False)
row("F.layerNorm", lambda x, w, c: F.layer_norm(x.double(), w.shape, w.double(), c.double()).float(), ramp([2, 50000], 1, 100), ramp([50000], 1, 0.5), ramp([50000], 1, -0.5), grad=False, tol=3e-5)

# Attention.
SIZES = ramp([1, 2, 3, 4], 2, -1), ramp([1, 2, 3, 4], 3, -1.3), ramp([1, 2, 3, 4], 2.5, -1.1)


def attend(q, k, v, mask=None, causal=False):
    return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)


row("F.attention", attend, *SIZES, causal=False, tol=4e-6)
row("F.attention", attend, *SIZES, causal=True, tol=4e-6)
row("F.attention", attend, *SIZES, b([1, 0, 1, 0, 0, 0, 1, 1, 1], [3, 3]), causal=False, tol=4e-6)
row("F.attention", attend, *SIZES, b([0] * 9, [3, 3]), causal=False)
row("F.attention", attend, *SIZES, f([0.0, -INF, 1.0, -INF, -INF, -INF, 0.0, 0.0, 0.5], [3, 3]), causal=False, tol=4e-6, grad=False)
row("F.attention", attend, ramp([0, 2, 3, 4]), ramp([0, 2, 3, 4]), ramp([0, 2, 3, 4]), causal=False)
row("F.attention", attend, ramp([1, 1, 1, 2]), ramp([1, 1, 5, 2], 3, -1), ramp([1, 1, 5, 2], 2), causal=False, tol=4e-6)

# Layers of torch's layout.
row("F.linear", F.linear, ramp([2, 3], 2, -1), ramp([4, 3], 3, -1.2), ramp([4], 1, -0.4))
row("F.linear", F.linear, f([], [0, 3]), ramp([4, 3], 3, -1.2), ramp([4], 1, -0.4))
row("F.linear", F.linear, ramp([1, 1], 2, -1), ramp([1, 1], 3, -1.2), ramp([1], 1, -0.4))
row("F.embedding", lambda ids, table: F.embedding(ids, table), i([3, 0, 3], [1, 3]), ramp([5, 2], 2, -1))
row("F.embedding", lambda ids, table: F.embedding(ids, table), i([], [0, 2]), ramp([5, 2], 2, -1))
CONVS = [
    ([2, 4, 5, 6], [6, 2, 3, 2], dict(stride=[2, 1], padding=[1, 2], dilation=[1, 2], groups=2)), ([1, 2, 5, 5], [3, 2, 2, 2], dict(stride=[3, 3], padding=[0, 0], dilation=[1, 1], groups=1)),
    ([0, 2, 4, 4], [3, 2, 2, 2], dict(stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1)), ([1, 3, 4, 4], [3, 1, 3, 3], dict(stride=[1, 1], padding=[1, 1], dilation=[1, 1], groups=3)),
]  # fmt: skip
for shape, kernel, args in CONVS:
    row("F.conv2d", lambda x, w, c, **more: F.conv2d(x, w, c, **more), ramp(shape, 3, -1), ramp(kernel, 2, -0.9), ramp([kernel[0]], 1, -0.5), **args)
row("F.convTranspose2d", lambda x, w, c: F.conv_transpose2d(x, w, c, stride=2, padding=1), ramp([1, 4, 2, 3], 3, -1), ramp([4, 2, 3, 3], 2, -0.9), ramp([2], 1, -0.5))
for values in [[NAN, 3.0, 3.0, 3.0], [-INF, -INF, -INF, -INF], [INF, 1.0, 2.0, -INF]]:
    row("F.maxPool2d", lambda x, size: F.max_pool2d(x, size), f(values, [1, 1, 2, 2]), size=2, grad=False)
row("F.maxPool2d", lambda x, size: F.max_pool2d(x, size), ramp([2, 2, 5, 4], 3, -1), size=2)
row("F.maxPool2d", lambda x, size: F.max_pool2d(x, size), f([2.0, 2.0, 2.0, 2.0], [1, 1, 2, 2]), size=2)
for spec, grad in [(ramp([2, 2, 5, 4], 3, -1), True), (f([INF, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], [1, 1, 2, 4]), False), (f([1.0, 1.0, NAN, 3.0, 4.0, 5.0, 6.0, 7.0], [1, 1, 2, 4]), False), (f([], [0, 1, 2, 4]), True)]:
    row("F.avgPool2d", lambda x, size: F.avg_pool2d(x, size), spec, size=2, grad=grad)
    row("F.adaptiveAvgPool2d", lambda x, size: F.adaptive_avg_pool2d(x, size), spec, size=[1, 2], grad=grad)

# Kernels that only some models reach.
for spec in [ramp([2, 3, 4], 5, -2), f([1.0, -INF, 0.5, -INF, 2.0, -INF, 0.1, 0.2, -1.0], [1, 3, 3]), f([5.0], [1, 1, 1]), f([], [0, 3, 3])]:
    row("causalSoftmax", lambda x: torch.softmax(x.masked_fill(~torch.tril(torch.ones(x.shape[-2:], dtype=torch.bool), x.shape[-1] - x.shape[-2]), -INF), -1), spec)


def causal_attention(qkv, heads):
    batch, seq, width = qkv.shape
    q, k, v = (part.reshape(batch, seq, heads, -1).transpose(1, 2) for part in qkv.split(width // 3, -1))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, seq, -1)


for shape, heads in [([2, 3, 12], 2), ([1, 1, 3], 1), ([1, 5, 6], 1)]:
    row("causalAttention", causal_attention, ramp(shape, 3, -1.2), heads=heads, tol=5e-6)
for spec, labels in [(ramp([3, 4], 5, -2), [0, 3, 2]), (f(MASKED, [3, 4]), [0, 3, 2]), (f([1000.0, 0.0, -1000.0, 0.0], [1, 4]), [1])]:
    row("crossEntropyInPlace", cross_entropy, spec, i(labels), reduction="mean", smoothing=0)
row("crossEntropyInPlace", cross_entropy, f([1.0, NAN, 3.0, 4.0], [1, 4]), i([0]), reduction="mean", smoothing=0, grad=False)
for rate in [0, 1]:
    row("dropout", lambda x, rate: F.dropout(x, rate), ramp([2, 3], 2, -1), rate=rate)
for shape in [[4, 3], [2, 3, 4], [2, 3, 2, 2]]:
    row("batchNorm", lambda x, w, c: F.batch_norm(x, None, None, w, c, training=True), ramp(shape, 3, -1), ramp([3], 1, 0.5), ramp([3], 1, -0.5), tol=1e-5)
row("batchNorm", lambda x, w, c: F.batch_norm(x, None, None, w, c, training=True), f([2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [3, 3]), ramp([3], 1, 0.5), ramp([3], 1, -0.5), tol=1e-5)
row("batchNorm", lambda x, w, c: F.batch_norm(x.double(), None, None, w.double(), c.double(), training=True).float(), ramp([100000, 3], 1, 50), ramp([3], 1, 0.5), ramp([3], 1, -0.5), grad=False, tol=1e-4)
row("batchNorm", lambda x, w, c: F.batch_norm(x, None, None, w, c, training=True), f([NAN, 1.0, 2.0, 3.0], [2, 2]), ramp([2], 1, 0.5), ramp([2], 1, -0.5), grad=False)
for groups in [1, 2, 4]:
    row("groupNorm", lambda x, w, c, groups: F.group_norm(x, groups, w, c), ramp([2, 4, 3], 3, -1), ramp([4], 1, 0.5), ramp([4], 1, -0.5), groups=groups, tol=1e-5)
for left, right in [([1, 1, 0, 0], [1, 0, 1, 0])]:
    row("kernelXor", torch.logical_xor, b(left), b(right))
