"""Writes own_models_reference.json: torch's losses, gradients' norms and final parameters of the twelve models of test/session/run/own-models.ts.

Parameters, numbered in the order of their sorted names, have scattered values (model_reference.py) in [-0.25, 0.25), and
weights of norms 1 more. Step s has 12 rows: numbers are scattered(size, 100 + 2 s, 4), a second input has 101 + 2 s;
label i is (7 i + 3 + s) mod classes. Gradients are clipped to the norm 1, which is a config's default. The Llama has the values of test/data/pretrained/llama. All is computed in float64 from
float32 values. Of each parameter and buffer after the last step, its product with scattered(size, 7, 2) and its norm are kept.

    python test/data/own_models_reference.py
"""

import json
import math
import os
import re

import torch
import transformers
from torch import nn
from torch.nn import functional as F

from layer_reference import on_one_line, scattered

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 5
ROWS = 12


def rows(number, *shape):
    return scattered(ROWS * math.prod(shape), number, 4.0).reshape(ROWS, *shape).double()


def labels(step, classes, *shape):
    count = ROWS * math.prod(shape)
    return torch.tensor([(7 * i + 3 + step) % classes for i in range(count)]).reshape(ROWS, *shape)


class Residual(nn.Module):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(10)
            self.up = nn.Linear(10, 20)
            self.down = nn.Linear(20, 10)

        def forward(self, x):
            return x + self.down(F.gelu(self.up(self.norm(x))))

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(7, 10)
        self.blocks = nn.ModuleList([self.Block(), self.Block()])
        self.head = nn.Linear(10, 1)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def loss(self, step):
        x = rows(100 + 2 * step, 7)
        return F.mse_loss(self(x), x.sum(1, keepdim=True))


class ResNet(nn.Module):
    class Block(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.norm1 = nn.BatchNorm2d(channels)
            self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
            self.norm2 = nn.BatchNorm2d(channels)

        def forward(self, x):
            return torch.relu(x + self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x))))))

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.first = self.Block(4)
        self.down = nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.second = self.Block(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.norm(self.stem(x))), 2)
        x = self.second(self.down(self.first(x)))
        return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))

    def loss(self, step):
        return F.cross_entropy(self(rows(100 + 2 * step, 3, 8, 8)), labels(step, 5))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 8, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 4)

    def loss(self, step):
        _, (h, _) = self.lstm(self.embedding(labels(step, 20, 9)))
        return F.cross_entropy(self.head(torch.cat([h[-2], h[-1]], 1)), labels(step, 4))


class Gpt(nn.Module):
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(16)
            self.q = nn.Linear(16, 16)
            self.k = nn.Linear(16, 16, bias=False)
            self.v = nn.Linear(16, 16)
            self.up = nn.Linear(16, 32)
            self.down = nn.Linear(32, 16)

        def forward(self, x):
            h = self.norm(x)
            x = x + F.scaled_dot_product_attention(self.q(h), self.k(h), self.v(h), is_causal=True)
            return x + self.down(torch.relu(self.up(x)))

    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(40, 16)
        self.layers = nn.ModuleList([self.Layer(), self.Layer()])
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 40, bias=False)
        self.head.weight = self.wte.weight

    def loss(self, step):
        tokens = labels(step, 40, 13)
        x = self.wte(tokens[:, :-1])
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(self.norm(x)).reshape(-1, 40), tokens[:, 1:].reshape(-1))


class Towers(nn.Module):
    """Each row has 4 pairs, and the other 3 pairs of its row are a pair's negatives."""

    def __init__(self):
        super().__init__()
        self.left = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 5))
        self.right = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 5))
        self.temperature = nn.Parameter(torch.zeros(1))

    def loss(self, step):
        left = F.normalize(self.left(rows(100 + 2 * step, 4, 7)), dim=-1)
        right = F.normalize(self.right(rows(101 + 2 * step, 4, 6)), dim=-1)
        logits = left @ right.transpose(1, 2) * torch.exp(self.temperature)
        own = torch.arange(4).repeat(ROWS)
        there = F.cross_entropy(logits.reshape(-1, 4), own)
        return (there + F.cross_entropy(logits.transpose(1, 2).reshape(-1, 4), own)) / 2


class Mixture(nn.Module):
    """The two experts with the largest gates see a row."""

    class Expert(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(8, 12)
            self.down = nn.Linear(12, 8)

        def forward(self, x):
            return self.down(F.silu(self.up(x)))

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(8, 4)
        self.experts = nn.ModuleList([self.Expert() for _ in range(4)])
        self.head = nn.Linear(8, 1)

    def loss(self, step):
        x = rows(100 + 2 * step, 8)
        gates = torch.softmax(self.router(x), -1)
        chosen = gates * (gates >= gates.topk(2).values[:, 1:])
        chosen = chosen / chosen.sum(1, keepdim=True)
        y = x + sum(chosen[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))
        balance = gates.square().sum(1).mean()
        return F.mse_loss(self.head(y), x.sum(1, keepdim=True)) + 0.01 * balance


class UNet(nn.Module):
    class Conv(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)
            self.norm = nn.GroupNorm(2, outputs)

        def forward(self, x):
            return F.silu(self.norm(self.conv(x)))

    def __init__(self):
        super().__init__()
        self.down = self.Conv(2, 4)
        self.middle = self.Conv(4, 8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.last = nn.Conv2d(8, 1, 3, padding=1)

    def loss(self, step):
        wide = self.down(rows(100 + 2 * step, 2, 8, 8))
        back = self.up(self.middle(F.max_pool2d(wide, 2)))
        return F.mse_loss(self.last(torch.cat([wide, back], 1)), rows(101 + 2 * step, 1, 8, 8))


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 3))
        self.decoder = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 7))

    def loss(self, step):
        x = rows(100 + 2 * step, 7)
        code = self.encoder(x)
        return F.mse_loss(torch.tanh(self.decoder(code)), x) + 0.1 * code.square().mean()


class Frozen(nn.Module):
    """The first part and one in the middle do not train, and `body` without its bias."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(7, 12)
        self.norm = nn.LayerNorm(12)
        self.stem = nn.Linear(12, 12)
        self.middle = nn.Linear(12, 12)
        self.body = nn.Linear(12, 12)
        self.head = nn.Linear(12, 1)
        for name, parameter in self.named_parameters():
            parameter.requires_grad = not name.startswith(("encoder", "norm", "middle", "body.bias"))

    def loss(self, step):
        x = rows(100 + 2 * step, 7)
        h = torch.relu(self.middle(torch.relu(self.stem(self.norm(self.encoder(x))))))
        return F.mse_loss(self.head(torch.relu(self.body(h))), x.sum(1, keepdim=True))


class Reused(nn.Module):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(12)
            self.linear = nn.Linear(12, 12)

        def forward(self, x):
            return x + torch.relu(self.linear(self.norm(x)))

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(7, 12)
        self.block = self.Block()
        self.head = nn.Linear(12, 1)
        self.register_buffer("offset", torch.ones(12))

    def loss(self, step):
        x = rows(100 + 2 * step, 7)
        h = self.stem(x) + self.offset
        for _ in range(3):
            h = self.block(h)
        return (self.head(h) - x.sum(1, keepdim=True)).square().mean()


class Layers(nn.Module):
    """Parameters have the names and shapes of tfjs."""

    class Dense(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.kernel = nn.Parameter(torch.zeros(inputs, outputs))
            self.bias = nn.Parameter(torch.zeros(outputs))

        def forward(self, x):
            return x @ self.kernel + self.bias

    class Norm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.gamma = nn.Parameter(torch.ones(width))
            self.beta = nn.Parameter(torch.zeros(width))

        def forward(self, x):
            return F.layer_norm(x, x.shape[-1:], self.gamma, self.beta, eps=1e-3)

    def __init__(self):
        super().__init__()
        self.first = self.Dense(7, 13)
        self.norm = self.Norm(13)
        self.last = self.Dense(13, 1)

    def loss(self, step):
        x = rows(100 + 2 * step, 7)
        return F.mse_loss(self.last(self.norm(torch.relu(self.first(x)))), x.sum(1, keepdim=True))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        folder = os.path.join(HERE, "pretrained", "llama")
        loaded = transformers.LlamaForCausalLM.from_pretrained(folder, attn_implementation="eager")
        self.model, self.lm_head, self.whole = loaded.model, loaded.lm_head, [loaded]

    def loss(self, step):
        tokens = labels(step, 96, 13)
        logits = self.whole[0](tokens[:, :-1]).logits
        return F.cross_entropy(logits.reshape(-1, 96), tokens[:, 1:].reshape(-1))


MODELS = {
    "a residual MLP": Residual,
    "a ResNet with batch norms": ResNet,
    "an LSTM classifier": Classifier,
    "a tied GPT": Gpt,
    "two towers with a contrastive loss": Towers,
    "a mixture of experts": Mixture,
    "a U-Net": UNet,
    "an autoencoder with two losses": Autoencoder,
    "a model with frozen parts": Frozen,
    "a model that reuses a layer": Reused,
    "a tf.LayersModel": Layers,
    "a Llama of a folder": Llama,
}


def trained(made):
    model = made()
    if made is not Llama:
        with torch.no_grad():
            for place, (name, parameter) in enumerate(sorted(model.named_parameters())):
                base = 1 if is_norm(name) else 0
                parameter.copy_(scattered(parameter.numel(), place, 0.5).reshape(parameter.shape) + base)
    model = model.double()
    trains = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if made is ResNet:
        optimizer = torch.optim.SGD(trains, lr=0.05, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(trains, lr=1e-2)
    losses, grad_norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model.loss(step)
        loss.backward()
        grad_norms.append(short(nn.utils.clip_grad_norm_(trains, 1.0)))
        optimizer.step()
        losses.append(short(loss))
    state = {name: digest(value) for name, value in (*model.named_parameters(), *model.named_buffers())}
    # The frequencies of rotary embeddings follow from the config.
    state = {name: state[name] for name in sorted(state) if "inv_freq" not in name}
    return {"losses": losses, "gradNorms": grad_norms, "state": state}


def is_norm(name):
    parts = name.split(".")
    return parts[-1] in ("weight", "gamma") and any("norm" in part for part in parts)


def digest(value):
    flat = value.detach().reshape(-1).double()
    return [short(flat @ scattered(flat.numel(), 7, 2.0).double()), short(flat.norm())]


def short(value):
    return float(f"{value.item():.9g}")


def main():
    torch.set_num_threads(1)
    recorded = {
        "made_by": f"test/data/own_models_reference.py, torch {torch.__version__}, transformers {transformers.__version__}",
        "models": {name: trained(made) for name, made in MODELS.items()},
    }
    with open(os.path.join(HERE, "own_models_reference.json"), "w") as file:
        file.write(re.sub(r"\[[^\[\]{}]*\]", on_one_line, json.dumps(recorded, indent=1)) + "\n")


if __name__ == "__main__":
    main()
