"""Rows of products, windows, and operations that move elements."""

import torch
from torch.nn import functional as F

from .rows import INF, NAN, b, f, i, ramp, row

# Products.
for left, right in [([2, 3], [3, 4]), ([2, 2, 3], [2, 3, 4]), ([2, 2, 3], [3, 4]), ([2, 3], [2, 3, 4]), ([3, 1, 2, 3], [2, 3, 2]), ([1, 2, 3], [4, 3, 2]), ([2, 0], [0, 3]), ([0, 2], [2, 3]), ([2, 3], [3, 0]), ([0, 2, 3], [3, 4]), ([0, 2, 3], [0, 3, 4]), ([1, 1], [1, 1])]:
    row("matMul", torch.matmul, ramp(left, 2, -0.7), ramp(right, 3, -1.1))
row("matMul", torch.matmul, f([0.0, NAN, INF, 1.0], [2, 2]), f([INF, 1.0, 0.0, 1.0], [2, 2]), grad=False)
row("matMul", torch.matmul, ramp([1, 100000], 1, 0.3), ramp([100000, 1], 1, 0.2), grad=False, tol=2e-5)
for equation, *shapes in [("ij,jk->ik", [2, 3], [3, 4]), ("bij,bkj->bik", [2, 3, 4], [2, 5, 4]), ("i,i->", [4], [4]), ("ij->ji", [2, 3]), ("bhqd,bhkd->bhqk", [2, 2, 3, 4], [2, 2, 5, 4]), ("ij->j", [3, 2]), ("i,j->ij", [2], [3])]:
    row("einsum", lambda *xs, equation: torch.einsum(equation, *xs), *(ramp(shape, 2, -0.9) for shape in shapes), equation=equation)

# Windows, in the layout of tfjs (channels last).


def last(call):
    """Calls a function of images whose channels come first."""

    def run(x, *others, **args):
        return call(x.permute(0, 3, 1, 2), *others, **args).permute(0, 2, 3, 1)

    return run


def padded(x, size, stride, dilation, pad, value=0.0):
    """Pads as 'same' in tfjs: the smaller half in front; torch's padding has equal halves."""
    if pad == "valid":
        return x
    amounts = []
    for axis in (3, 2):
        extent, k, s, d = x.shape[axis], size[axis - 2], stride[axis - 2], dilation[axis - 2]
        needed = max(0, ((extent + s - 1) // s - 1) * s + (k - 1) * d + 1 - extent)
        amounts += [needed // 2, needed - needed // 2]
    return F.pad(x, amounts, value=value)


def conv2d(x, w, stride, dilation, pad):
    x = padded(x, w.shape[:2], stride, dilation, pad)
    return F.conv2d(x, w.permute(3, 2, 0, 1), stride=stride, dilation=dilation)


def depthwise(x, w, stride, dilation, pad):
    x = padded(x, w.shape[:2], stride, dilation, pad)
    kernel = w.permute(2, 3, 0, 1).reshape(-1, 1, *w.shape[:2])
    return F.conv2d(x, kernel, stride=stride, dilation=dilation, groups=w.shape[2])


WINDOWS = [
    ([5, 6], [3, 3], [1, 1], [1, 1]), ([5, 6], [2, 3], [2, 1], [1, 1]), ([9, 5], [2, 2], [5, 2], [1, 1]), ([5, 5], [2, 2], [3, 3], [1, 1]),
    ([7, 7], [3, 2], [1, 1], [2, 1]), ([4, 4], [1, 1], [2, 2], [1, 1]), ([1, 1], [1, 1], [1, 1], [1, 1]), ([3, 4], [3, 4], [1, 1], [1, 1]), ([6, 6], [4, 4], [1, 1], [1, 1]), ([8, 8], [2, 2], [1, 1], [3, 3]),
]  # fmt: skip
for size, kernel, stride, dilation in WINDOWS:
    for pad in ["valid", "same"]:
        if max(stride) > 1 and max(dilation) > 1:
            continue
        row("conv2d", last(conv2d), ramp([2, *size, 2], 3, -1), ramp([*kernel, 2, 3], 2, -0.9), stride=stride, dilation=dilation, pad=pad)
        if stride[0] == stride[1]:
            row("depthwiseConv2d", last(depthwise), ramp([1, *size, 2], 3, -1), ramp([*kernel, 2, 2], 2, -0.9), stride=stride, dilation=dilation, pad=pad)
row("conv2d", last(conv2d), ramp([0, 4, 4, 2], 1), ramp([2, 2, 2, 3], 1), stride=[1, 1], dilation=[1, 1], pad="same")


def conv3d(x, w, stride, pad):
    x = x.permute(0, 4, 1, 2, 3)
    if pad == "same":
        amounts = []
        for axis in (4, 3, 2):
            needed = max(0, ((x.shape[axis] + stride - 1) // stride - 1) * stride + w.shape[axis - 2] - x.shape[axis])
            amounts += [needed // 2, needed - needed // 2]
        x = F.pad(x, amounts)
    return F.conv3d(x, w.permute(4, 3, 0, 1, 2), stride=stride).permute(0, 2, 3, 4, 1)


for size, kernel, stride in [([4, 4, 3], [2, 2, 2], 1), ([3, 4, 5], [3, 2, 1], 1), ([5, 5, 5], [2, 3, 2], 2)]:
    for pad in ["valid", "same"]:
        row("conv3d", conv3d, ramp([1, *size, 2], 3, -1), ramp([*kernel, 2, 2], 2, -0.9), stride=stride, pad=pad)
for size, kernel, stride in [([3, 3], [3, 3], 1), ([3, 4], [2, 3], 2)]:
    row("conv2dTranspose", last(lambda x, w, stride: F.conv_transpose2d(x, w.permute(3, 2, 0, 1), stride=stride)), ramp([1, *size, 2], 3, -1), ramp([*kernel, 3, 2], 2, -0.9), stride=stride)


def max_pool(x, size, stride, pad):
    return F.max_pool2d(padded(x, size, stride, [1, 1], pad, -INF), size, stride)


def avg_pool(x, size, stride, pad):
    ones = padded(torch.ones_like(x), size, stride, [1, 1], pad)
    return F.avg_pool2d(padded(x, size, stride, [1, 1], pad), size, stride) / F.avg_pool2d(ones, size, stride)


for size, kernel, stride in [([5, 6], [2, 2], [2, 2]), ([5, 5], [3, 2], [1, 1]), ([4, 5], [2, 3], [3, 2]), ([3, 3], [3, 3], [1, 1]), ([1, 1], [1, 1], [1, 1]), ([7, 3], [2, 2], [4, 1])]:
    for pad in ["valid", "same"]:
        row("maxPool", last(max_pool), ramp([2, *size, 2], 3, -1), size=kernel, stride=stride, pad=pad)
        row("avgPool", last(avg_pool), ramp([2, *size, 2], 3, -1), size=kernel, stride=stride, pad=pad)
for values in [[NAN, 3.0, 3.0, 3.0], [-INF, -INF, -INF, -INF], [INF, 1.0, 2.0, -INF], [1.0, 2.0, 3.0, NAN]]:
    row("maxPool", last(max_pool), f(values, [1, 2, 2, 1]), size=[2, 2], stride=[1, 1], pad="valid", grad=False)
    row("maxPool", last(max_pool), f(values, [1, 2, 2, 1]), size=[2, 2], stride=[1, 1], pad="same", grad=False)
row("avgPool", last(avg_pool), f([INF, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [1, 3, 3, 1]), size=[2, 2], stride=[1, 1], pad="same", grad=False)
row("avgPool", last(avg_pool), f([NAN, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [1, 3, 3, 1]), size=[1, 2], stride=[1, 1], pad="valid", grad=False)
for kind, call in {"maxPool3d": F.max_pool3d, "avgPool3d": F.avg_pool3d}.items():
    row(kind, lambda x, size, stride, call=call: call(x.permute(0, 4, 1, 2, 3), size, stride).permute(0, 2, 3, 4, 1), ramp([1, 4, 3, 5, 2], 3, -1), size=2, stride=1)
row("maxPool3d", lambda x, size, stride: F.max_pool3d(x.permute(0, 4, 1, 2, 3), size, stride).permute(0, 2, 3, 4, 1), f([NAN, 3.0, 3.0, 3.0, 1.0, 2.0, 3.0, 4.0], [1, 2, 2, 2, 1]), size=2, stride=1, grad=False)

# Pictures.
for size in [[6, 6], [3, 5], [2, 2], [1, 1]]:
    for corners in [False, True]:
        row("resizeBilinear", last(lambda x, size, corners: F.interpolate(x, size, mode="bilinear", align_corners=corners)), ramp([1, 4, 3, 2], 3, -1), size=size, corners=corners)
    row("resizeNearest", last(lambda x, size: F.interpolate(x, size, mode="nearest-exact")), ramp([1, 4, 3, 2], 3, -1), size=size)
row("resizeBilinear", last(lambda x, size, corners: F.interpolate(x, size, mode="bilinear", align_corners=corners)), ramp([1, 1, 1, 2], 3, -1), size=[2, 3], corners=False)
for amounts in [[1, 1], [2, 0], [0, 2], [2, 2]]:
    row("mirrorPad", lambda x, amounts, mode: F.pad(x[None], amounts, mode="reflect")[0], ramp([2, 3], 3, -1), amounts=amounts, mode="reflect")


def symmetric(x, amounts, mode):
    return torch.cat([torch.flip(x[:, : amounts[0]], [1]), x, torch.flip(x[:, x.shape[1] - amounts[1] :], [1])], 1)


for amounts in [[1, 1], [3, 0], [0, 2], [2, 3]]:
    row("mirrorPad", symmetric, ramp([2, 3], 3, -1), amounts=amounts, mode="symmetric")

# Operations that move elements.
row("pad", lambda x, amounts, value: F.pad(x, amounts, value=value), f([1.0, 2.0]), amounts=[1, 0], value=7)
row("pad", lambda x, amounts, value: F.pad(x, amounts, value=value), i([16777217, 2]), amounts=[1, 2], value=16777219)
row("pad", lambda x, amounts, value: F.pad(x, amounts, value=value), f([], [0]), amounts=[1, 2], value=3)
for spec, ids, axis in [(ramp([4, 3]), [3, 0, 0], 0), (ramp([4, 3]), [2, 1], 1), (ramp([4, 3]), [], 0), (ramp([4, 3]), [], 1), (ramp([3, 0]), [1, 2], 0), (i([16777217, 5, 7]), [2, 0], 0), (ramp([2, 3, 2]), [1, 1, 1], 1), (b([1, 0, 1]), [2, 2], 0)]:
    row("gather", lambda x, index, axis: torch.index_select(x, axis, index), spec, i(ids), axis=axis)
for shape, index in [([3, 2], [[2], [0]]), ([3, 2], [[2, 1], [0, 0], [2, 1]]), ([2, 2, 2], [[1, 0], [0, 1]])]:
    depth = len(index[0])
    row("gatherND", lambda x, index: x[tuple(index.long().T)], ramp(shape, 2, -0.7), i([k for one in index for k in one], [len(index), depth]))
    row("scatterND", lambda updates, index, shape: torch.zeros(shape).index_put(tuple(index.long().T), updates, accumulate=True), ramp([len(index), *shape[depth:]], 2, -0.7), i([k for one in index for k in one], [len(index), depth]), shape=shape)
for shapes, axis in [([[2, 3], [1, 3]], 0), ([[2, 3], [2, 1]], 1), ([[0, 2], [1, 2]], 0), ([[0, 2], [0, 2]], 0), ([[2, 0], [2, 3]], 1)]:
    row("concat", lambda *xs, axis: torch.cat(xs, axis), *(ramp(shape, 2, -0.7) for shape in shapes), axis=axis)
row("concat", lambda *xs, axis: torch.cat(xs, axis), i([16777217]), i([2, 3]), axis=0)
row("stack", lambda *xs, axis: torch.stack(xs, axis), ramp([2, 3]), ramp([2, 3], 2), axis=1)
row("stack", lambda *xs, axis: torch.stack(xs, axis), f([], [0]), f([], [0]), axis=0)
for shape, perm in [([2, 3], [1, 0]), ([2, 3, 4], [2, 0, 1]), ([0, 3], [1, 0]), ([1, 3, 1, 2], [3, 1, 0, 2])]:
    row("transpose", lambda x, perm: x.permute(perm), ramp(shape, 2, -0.7), perm=perm)
row("transpose", lambda x, perm: x.permute(perm), b([], [0, 3, 2]), perm=[2, 0, 1])
row("transpose", lambda x, perm: x.permute(perm), b([1, 0, 0, 1, 1, 0], [2, 3]), perm=[1, 0])
for shape, reps in [([2, 1], [2, 3]), ([3], [0]), ([0, 2], [2, 2]), ([2], [1])]:
    row("tile", lambda x, reps: x.repeat(reps), ramp(shape, 2, -0.7), reps=reps)
row("tile", lambda x, reps: x.repeat(reps), i([16777217, 3]), reps=[2])
for shape, axis in [([2, 3], 1), ([2, 3], 0), ([0, 3], 0), ([1], 0)]:
    row("reverse", lambda x, axis: torch.flip(x, [axis]), ramp(shape, 2, -0.7), axis=axis)
for shape, begin, size in [([4, 3], [1, 0], [2, 3]), ([4, 3], [4, 0], [0, 3]), ([5], [2], [0])]:
    row("slice", lambda x, begin, size: x[tuple(slice(s, s + n) for s, n in zip(begin, size))], ramp(shape, 2, -0.7), begin=begin, size=size)
for spec, begin, end, step in [(ramp([6], 2), [0], [6], [2]), (ramp([5, 4], 2), [0, 1], [5, 4], [2, 3]), (i([1, 2, 16777217, 4]), [0], [4], [2]), (b([1, 0, 1]), [0], [3], [2]), (ramp([3], 2), [2], [1], [1])]:
    row("stridedSlice", lambda x, begin, end, step: x[tuple(slice(s, e, n) for s, e, n in zip(begin, end, step))], spec, begin=begin, end=end, step=step)
row("stridedSlice", lambda x, begin, end, step: torch.flip(x, [0])[0:2], ramp([3], 2, 0.1), begin=[2], end=[0], step=[-1])
for spec, k in [(f([NAN, 1.0, INF, -INF, 2.0, 3.0]), 4), (f([1.0, 5.0, 3.0, 2.0, 4.0, 0.0], [2, 3]), 2), (i([16777217, 16777216, 5]), 2), (f([], [0, 3]), 2), (f([4.0]), 1), (ramp([3, 100], 5, -2), 7)]:
    row("topk", lambda x, k: torch.topk(x, k), spec, k=k)
row("oneHot", lambda x, depth: F.one_hot(x.long(), depth).int(), i([2, 0, 1]), depth=3)
row("oneHot", lambda x, depth: torch.zeros([0, depth], dtype=torch.int32), i([]), depth=3)
row("depthToSpace", last(lambda x, block: F.pixel_shuffle(x, block)), ramp([1, 2, 3, 4], 2, -0.7), block=2)
row("depthToSpace", lambda x, block: torch.zeros([0, 4, 4, 1]) + 0 * x.sum(), ramp([0, 2, 2, 4]), block=2)
row("split", lambda x, sizes, axis: torch.split(x, sizes, axis), ramp([4, 3], 2, -0.7), sizes=[1, 3], axis=0)
row("split", lambda x, sizes, axis: torch.split(x, sizes, axis), ramp([2, 3], 2, -0.7), sizes=[0, 3], axis=1)
row("unstack", lambda x, axis: torch.unbind(x, axis), ramp([2, 3], 2, -0.7), axis=1)
row("segmentSum", lambda x, ids, count: torch.zeros([count, *x.shape[1:]]).index_add(0, ids, x), ramp([4, 2], 2, -0.7), i([2, 0, 2, 1]), count=4)
row("segmentSum", lambda x, ids, count: torch.zeros([count, *x.shape[1:]]).index_add(0, ids, x), f([], [0, 2]), i([]), count=2)
row("searchSorted", lambda x, values: torch.searchsorted(x, values).int(), f([1.0, 3.0, 3.0, 5.0], [1, 4]), f([0.0, 3.0, 6.0, 4.0], [1, 4]), grad=False)
row("bincount", lambda x, size: torch.bincount(x, minlength=size).float(), i([0, 2, 2, 1]), size=4)
row("bincount", lambda x, size: torch.zeros(size), i([]), size=3)
row("unique", lambda x: torch.unique(x), i([1, 2, 16777217, 16777217]))
row("squeeze", lambda x: x.squeeze(), ramp([1, 3, 1], 2))
row("expandDims", lambda x, axis: x.unsqueeze(axis), ramp([2, 3], 2), axis=1)
row("reshape", lambda x, shape: x.reshape(shape), ramp([2, 3], 2), shape=[3, 2])
row("reshape", lambda x, shape: x.reshape(shape), f([], [0, 3]), shape=[3, 0])
row("broadcastTo", lambda x, shape: x.expand(shape), ramp([2, 1], 2), shape=[3, 2, 4])
row("diag", lambda x: torch.diag(x), f([1.0, 2.0]), grad=False)
row("addN", lambda *xs: sum(xs), ramp([2, 2]), ramp([2, 2], 2), ramp([2, 2], 3))
row("lrn", lambda x: last(lambda y: F.local_response_norm(y, 5, alpha=5.0, beta=0.5, k=1.0))(x), ramp([1, 2, 2, 7], 3, -1))
