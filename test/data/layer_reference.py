"""Writes layer_reference.json: outputs and gradients of torch's layers and losses, with scattered values.

Parameter p of a layer, in torch's order, has scattered(size, p); input i has scattered(size, 100 + i, 4) (integers: see labels());
the gradient of output k is scattered(size, 200 + k). A layer with running statistics runs once in training, then in eval mode.

    python test/data/layer_reference.py
"""

import json
import os
import re

import torch
from torch import nn
from torch.nn import functional as F

HERE = os.path.dirname(os.path.abspath(__file__))


def scattered(count, number, size=1.0):
    """Element i is size times a hash of i and number, less a half: as in model_reference.py."""
    values = []
    for i in range(count):
        h = ((i * 7919 + number * 104729 + 17) * 2654435761) % 2**32
        h = ((h ^ (h >> 15)) * 2654435761) % 2**32
        values.append(size * (h / 2**32 - 0.5))
    return torch.tensor(values)


def floats(*shape):
    return {"shape": shape}


def labels(classes, *shape, ignored=()):
    """Label i is (7 i + 3) mod classes, or -100 for the indices that are ignored."""
    return {"shape": shape, "classes": classes, "ignored": ignored}


def made(number, spec):
    shape = spec["shape"]
    count = 1
    for extent in shape:
        count *= extent
    if "classes" in spec:
        values = [-100 if i in spec["ignored"] else (7 * i + 3) % spec["classes"] for i in range(count)]
        return torch.tensor(values).reshape(shape)
    return scattered(count, 100 + number, 4.0).reshape(shape).requires_grad_(spec.get("grad", True))


def constant(*shape):
    return {"shape": shape, "grad": False}


CASES = {}


def layer(name, module, *inputs, call=None):
    CASES[name] = (module, inputs, call or (lambda m, *xs: m(*xs)))


def function(name, call, *inputs):
    CASES[name] = (nn.Module(), inputs, lambda _, *xs: call(*xs))


layer("Linear without bias", nn.Linear(5, 3, bias=False), floats(2, 5))
layer("Embedding with padding", nn.Embedding(5, 3, padding_idx=3), labels(5, 2, 4))
layer("LayerNorm of two dims", nn.LayerNorm((3, 4)), floats(2, 3, 4))
layer("LayerNorm without affine", nn.LayerNorm(5, eps=1e-2, elementwise_affine=False), floats(3, 5))
layer("LayerNorm without bias", nn.LayerNorm(5, bias=False), floats(3, 5))
layer("RMSNorm", nn.RMSNorm(6), floats(2, 6))
layer("RMSNorm of two dims", nn.RMSNorm((2, 3), eps=1e-3), floats(2, 2, 3))
layer("RMSNorm without affine", nn.RMSNorm(6, elementwise_affine=False), floats(2, 6))
layer("GroupNorm", nn.GroupNorm(2, 6), floats(2, 6, 2, 3))
layer("GroupNorm without affine", nn.GroupNorm(3, 6, eps=1e-2, affine=False), floats(2, 6, 3))
layer("Conv2d", nn.Conv2d(2, 3, 3), floats(2, 2, 4, 5))
layer("Conv2d with options", nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2, bias=False), floats(1, 4, 5, 4))
layer("Conv2d same", nn.Conv2d(2, 2, (2, 3), padding="same"), floats(1, 2, 3, 3))
layer("Conv2d of one image", nn.Conv2d(2, 3, 1), floats(2, 3, 3))
layer("Conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), floats(2, 4, 7))
layer("ConvTranspose2d", nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1, groups=2), floats(1, 4, 2, 3))
layer("MaxPool2d", nn.MaxPool2d(3, stride=2, padding=1), floats(1, 2, 5, 5))
layer("MaxPool2d with options", nn.MaxPool2d((2, 3), stride=(2, 1), padding=(0, 1), dilation=(1, 2), ceil_mode=True), floats(1, 1, 5, 6))
layer("MaxPool1d", nn.MaxPool1d(2), floats(2, 2, 5))
layer("AvgPool2d", nn.AvgPool2d(2), floats(1, 2, 4, 5))
layer("AvgPool2d with options", nn.AvgPool2d((3, 2), stride=(2, 3), padding=(1, 1), ceil_mode=True, count_include_pad=False), floats(1, 1, 6, 6))
layer("AvgPool2d with padding", nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True), floats(1, 1, 6, 5))
layer("AvgPool1d", nn.AvgPool1d(3, stride=1, padding=1), floats(1, 2, 5))
layer("AdaptiveAvgPool2d", nn.AdaptiveAvgPool2d((2, 3)), floats(1, 2, 5, 4))
layer("AdaptiveAvgPool2d of whole images", nn.AdaptiveAvgPool2d(1), floats(2, 3, 3, 4))
layer("AdaptiveAvgPool2d with a free side", nn.AdaptiveAvgPool2d((None, 2)), floats(1, 1, 3, 5))
layer("AdaptiveAvgPool1d", nn.AdaptiveAvgPool1d(3), floats(1, 2, 5))
layer("Flatten", nn.Flatten(), floats(2, 2, 3))
layer("Unflatten", nn.Unflatten(1, (2, 3)), floats(2, 6))
layer("Upsample", nn.Upsample(scale_factor=(2, 3)), floats(1, 2, 2, 2))
layer("BatchNorm1d", nn.BatchNorm1d(4), floats(5, 4))
layer("BatchNorm1d by plain means", nn.BatchNorm1d(3, momentum=None, eps=1e-2), floats(2, 3, 4))
layer("BatchNorm2d", nn.BatchNorm2d(3), floats(2, 3, 3, 2))
layer("BatchNorm2d without affine", nn.BatchNorm2d(3, affine=False, momentum=0.3), floats(2, 3, 2, 2))
layer("BatchNorm2d without statistics", nn.BatchNorm2d(2, track_running_stats=False), floats(2, 2, 2, 3))
layer("MultiheadAttention", nn.MultiheadAttention(8, 2, batch_first=True), floats(2, 3, 8), floats(2, 4, 8), floats(2, 4, 8))
layer("MultiheadAttention, length first, other sizes", nn.MultiheadAttention(6, 3, bias=False, kdim=4, vdim=5), floats(3, 2, 6), floats(2, 2, 4), floats(2, 2, 5))
layer("MultiheadAttention of one sequence", nn.MultiheadAttention(4, 2), floats(3, 4), floats(3, 4), floats(3, 4))
layer(
    "MultiheadAttention, causal",
    nn.MultiheadAttention(4, 2, batch_first=True),
    floats(2, 3, 4),
    call=lambda m, x: m(x, x, x, need_weights=False, is_causal=True, attn_mask=torch.ones(3, 3, dtype=torch.bool).triu(1))[0],
)
layer(
    "MultiheadAttention, masks",
    nn.MultiheadAttention(4, 2, batch_first=True),
    floats(2, 3, 4),
    constant(4, 3, 3),
    call=lambda m, x, mask: m(
        x, x, x, key_padding_mask=torch.tensor([[False, False, True], [False, True, False]]).float() * -1e9, attn_mask=mask,
        average_attn_weights=False,
    ),
)
def encoder(norm=None, **options):
    made = nn.TransformerEncoderLayer(4, 2, dim_feedforward=3, dropout=0.0, **options)
    return nn.TransformerEncoder(made, 2, norm=norm, enable_nested_tensor=False)


layer("TransformerEncoder", encoder(), floats(3, 2, 4))
layer(
    "TransformerEncoder with options",
    encoder(nn.LayerNorm(4), activation="gelu", batch_first=True, norm_first=True, bias=False),
    floats(2, 3, 4),
    call=lambda m, x: m(x, mask=torch.ones(3, 3, dtype=torch.bool).triu(1), is_causal=True),
)
layer("LSTM", nn.LSTM(3, 2), floats(4, 2, 3))
layer("LSTM with options", nn.LSTM(3, 2, num_layers=2, bidirectional=True, batch_first=True), floats(2, 3, 3), floats(4, 2, 2), floats(4, 2, 2), call=lambda m, x, h, c: m(x, (h, c)))
layer("GRU", nn.GRU(3, 2, num_layers=2, bias=False), floats(3, 2, 3), floats(2, 2, 2))
layer("GRU, both directions", nn.GRU(2, 3, bidirectional=True), floats(3, 2))
layer("RNN", nn.RNN(3, 2, nonlinearity="relu"), floats(3, 2, 3))
layer("LSTM of one step with states", nn.LSTM(3, 2), floats(1, 2, 3), floats(1, 2, 2), floats(1, 2, 2), call=lambda m, x, h, c: m(x, (h, c)))
layer("LSTM of one step without states", nn.LSTM(3, 2, num_layers=2, bidirectional=True), floats(1, 2, 3))
layer("LSTM of one step of one sequence", nn.LSTM(3, 2, batch_first=True), floats(1, 3))
layer("LSTM with states in one layer", nn.LSTM(3, 2, batch_first=True), floats(2, 3, 3), floats(1, 2, 2), floats(1, 2, 2), call=lambda m, x, h, c: m(x, (h, c)))
layer("GRU of one step with a state", nn.GRU(3, 2, bidirectional=True), floats(1, 2, 3), floats(2, 2, 2))
layer("GRU with a state in one layer", nn.GRU(3, 2), floats(3, 2, 3), floats(1, 2, 2))
layer("RNN of one step with a state", nn.RNN(3, 2, batch_first=True), floats(2, 1, 3), floats(1, 2, 2))


class EncoderDecoder(nn.Module):
    """The encoder's last state is the decoder's first state; the decoder reads one step at a time."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.LSTM(3, 2)
        self.decoder = nn.LSTM(3, 2)

    def forward(self, x, y):
        _, state = self.encoder(x)
        outputs = []
        for step in y:
            output, state = self.decoder(step[None], state)
            outputs.append(output)
        return torch.cat(outputs)


layer("Encoder and decoder", EncoderDecoder(), floats(2, 1, 3), floats(3, 1, 3))
function("unstack and split into one part", lambda x: x.unbind(1)[0] + x.split(1, 1)[0][:, 0], floats(3, 1, 2))
for name in ("ReLU", "ReLU6", "LeakyReLU", "ELU", "GELU", "SiLU", "Mish", "Softplus", "Tanh", "Sigmoid"):
    layer(name, getattr(nn, name)(), floats(3, 5))
layer("LeakyReLU with a slope", nn.LeakyReLU(0.3), floats(7))
layer("ELU with alpha", nn.ELU(0.5), floats(7))
layer("GELU by tanh", nn.GELU(approximate="tanh"), floats(7))
layer("Softmax", nn.Softmax(dim=1), floats(2, 3, 2))
layer("LogSoftmax", nn.LogSoftmax(dim=-1), floats(2, 3))

WEIGHT = constant(5)
function("crossEntropy", F.cross_entropy, floats(4, 5), labels(5, 4))
function("crossEntropy, ignored", F.cross_entropy, floats(4, 5), labels(5, 4, ignored=(1, 3)))
function("crossEntropy of pixels", F.cross_entropy, floats(2, 5, 2, 3), labels(5, 2, 2, 3, ignored=(4,)))
function("crossEntropy, smoothed", lambda x, y: F.cross_entropy(x, y, label_smoothing=0.2), floats(4, 5), labels(5, 4, ignored=(2,)))
function(
    "crossEntropy, weighted and smoothed",
    lambda x, y, w: F.cross_entropy(x, y, weight=w.abs(), label_smoothing=0.1),
    floats(4, 5), labels(5, 4, ignored=(0,)), WEIGHT,
)
function("crossEntropy, not reduced", lambda x, y: F.cross_entropy(x, y, reduction="none", ignore_index=0), floats(4, 5), labels(5, 4))
function("crossEntropy, summed", lambda x, y: F.cross_entropy(x, y, reduction="sum"), floats(4, 5), labels(5, 4))
function("crossEntropy of probabilities", lambda x, y, w: F.cross_entropy(x, y.softmax(1), weight=w.abs(), label_smoothing=0.1), floats(3, 5), constant(3, 5), WEIGHT)
function("crossEntropy of one row", F.cross_entropy, floats(5), labels(5))
function("nllLoss", lambda x, y, w: F.nll_loss(x, y, weight=w.abs()), floats(4, 5), labels(5, 4, ignored=(1,)), WEIGHT)
function("mseLoss", F.mse_loss, floats(3, 4), constant(3, 4))
function("mseLoss, summed", lambda x, y: F.mse_loss(x, y, reduction="sum"), floats(3, 4), constant(3, 4))
function("l1Loss", F.l1_loss, floats(3, 4), constant(3, 4))
function("l1Loss, not reduced", lambda x, y: F.l1_loss(x, y, reduction="none"), floats(3, 4), constant(3, 4))
function("smoothL1Loss", lambda x, y: F.smooth_l1_loss(x, y, beta=0.7), floats(3, 4), constant(3, 4))
function("huberLoss", lambda x, y: F.huber_loss(x, y, delta=0.7), floats(3, 4), constant(3, 4))
function("binaryCrossEntropyWithLogits", lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()), floats(3, 4), constant(3, 4))
function(
    "binaryCrossEntropyWithLogits, weighted",
    lambda x, y, w, p: F.binary_cross_entropy_with_logits(x, y.sigmoid(), weight=w.abs(), pos_weight=p.abs()),
    floats(3, 4), constant(3, 4), constant(4), constant(4),
)
function("binaryCrossEntropy", lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), floats(3, 4), constant(3, 4))
function("klDiv", lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1)), floats(3, 4), constant(3, 4))
function("klDiv of logarithms", lambda x, y: F.kl_div(x.log_softmax(1), y.log_softmax(1), reduction="batchmean", log_target=True), floats(3, 4), constant(3, 4))
function("linear", lambda x, w: F.linear(x, w), floats(2, 2, 3), floats(4, 3))
function("embedding", lambda y, w: F.embedding(y, w, padding_idx=1), labels(4, 3), floats(4, 2))
function("layerNorm", lambda x, w: F.layer_norm(x, (2, 3), weight=w), floats(2, 2, 3), floats(2, 3))
function("conv1d", lambda x, w: F.conv1d(x, w, padding="same", dilation=2), floats(1, 2, 5), floats(3, 2, 3))
function("avgPool2d", lambda x: F.avg_pool2d(x, (2, 1), stride=1), floats(1, 1, 3, 3))
function("adaptiveAvgPool2d", lambda x: F.adaptive_avg_pool2d(x, (1, 2)), floats(1, 2, 3, 3))
function("scaledDotProductAttention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), floats(1, 2, 3, 4), floats(1, 2, 3, 4), floats(1, 2, 3, 4))
function(
    "scaledDotProductAttention with a mask",
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=torch.tensor([[True, False, True], [True, True, False]]), scale=0.3),
    floats(1, 2, 2, 4), floats(1, 2, 3, 4), floats(1, 2, 3, 2),
)
function("scaledDotProductAttention with fewer queries", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), floats(1, 1, 2, 4), floats(1, 1, 3, 4), floats(1, 1, 3, 4))
function("normalize", F.normalize, floats(3, 4))
function("cosineSimilarity", F.cosine_similarity, floats(3, 4), floats(3, 4))


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value if item is not None for tensor in tensors(item)]


def numbers(tensor):
    return [float(f"{v:.7g}") for v in tensor.detach().double().flatten().tolist()]


def record(module, specs, call):
    names = [name for name, _ in module.named_parameters()]
    with torch.no_grad():
        for place, parameter in enumerate(module.parameters()):
            parameter.copy_(scattered(parameter.numel(), place).reshape(parameter.shape))
    inputs = [made(i, spec) for i, spec in enumerate(specs)]
    outputs = tensors(call(module, *inputs))
    sum((y * scattered(y.numel(), 200 + k).reshape(y.shape)).sum() for k, y in enumerate(outputs)).backward()
    found = {"inputs": specs, "parameters": names, "shapes": [list(y.shape) for y in outputs], "outputs": [numbers(y) for y in outputs]}
    found["inputGradients"] = [None if x.grad is None else numbers(x.grad) for x in inputs]
    found["gradients"] = {name: numbers(p.grad) for name, p in module.named_parameters()}
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        found["buffers"] = {name: numbers(b) for name, b in module.named_buffers()}
        inputs[0].grad = None
        for parameter in module.parameters():
            parameter.grad = None
        module.eval()
        y = module(*inputs)
        (y * scattered(y.numel(), 200).reshape(y.shape)).sum().backward()
        found["eval"] = {
            "output": numbers(y),
            "inputGradient": numbers(inputs[0].grad),
            "gradients": {name: numbers(p.grad) for name, p in module.named_parameters()},
        }
    return found


def main():
    recorded = {name: record(*case) for name, case in CASES.items()}
    with open(os.path.join(HERE, "layer_reference.json"), "w") as file:
        made_by = f"test/data/layer_reference.py, torch {torch.__version__}"
        indented = json.dumps({"made_by": made_by, "cases": recorded}, indent=1)
        file.write(re.sub(r"\[[^\[\]{}]*\]", on_one_line, indented) + "\n")


def on_one_line(array):
    return "[" + " ".join(array.group()[1:-1].split()) + "]"


if __name__ == "__main__":
    main()
