"""The GPT with experts of shardlab, with its parameter names: a router chooses some feed-forward layers per token."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .errors import Json
from .gpt import GPT, AttentionBlock
from .noise import gumbel_noise, salt_of

# Applies experts to rows that are ordered by expert; the list has the number of rows of each expert. Shapes: [A, d] → the same.
Apply = Callable[[Tensor, list[int]], Tensor]
# Sends rows to their experts and returns the outputs. Arguments: rows ordered by expert, the rows per expert, and the experts.
Exchange = Callable[[Tensor, Tensor, Apply], Tensor]


class FeedForward(nn.Module):
    """An expert: a linear layer, GELU and another linear layer. Shapes: x [rows, d] → the same."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc2(F.gelu(self.fc1(x), approximate="tanh"))
        return out


class TemperatureGate(nn.Module):
    """Returns logits divided by a learned temperature. Shapes: x [rows, d] → [rows, experts]."""

    def __init__(self, dim: int, experts: int) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.temperature = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.gate(x) / self.temperature
        return out


class Experts(nn.ModuleDict):
    """The experts of a layer by their index; under expert parallelism, only this rank's experts."""

    # All experts of the layer in the order of the ranks that have them; None: in their own order.
    placed: list[int] | None = None

    def forward(self, rows: Tensor, counts: list[int]) -> Tensor:
        # An expert without rows runs too, so that all ranks have gradients of the same parameters.
        return torch.cat([expert(own) for expert, own in zip(self.values(), torch.split(rows, counts), strict=True)])


class MixtureOfExperts(nn.Module):
    """
    Sends rows to the experts that a router chooses; the output is the sum of the experts' outputs, multiplied by the router's
    factors. An expert takes its first rows up to its capacity. Shapes: x [B, T, d] → the same. Source: as
    src/nn/moe/mixture-of-experts.ts.
    """

    def __init__(self, shape: Json) -> None:
        super().__init__()
        dim, self.num_experts = shape["dim"], shape["experts"]
        self.router = shape["router"]
        self.top = shape["topK"]
        self.capacity_factor = shape["capacityFactor"]
        self.balance = shape["auxLossWeight"]
        self.has_noise = self.router == "temperature"
        self.gate = TemperatureGate(dim, self.num_experts) if self.has_noise else nn.Linear(dim, self.num_experts, bias=False)
        self.experts = Experts({str(i): FeedForward(dim) for i in range(self.num_experts)})
        # Expert parallelism replaces this function.
        self.exchange: Exchange = lambda rows, counts, apply: apply(rows, counts.tolist())
        # Sums counts over the ranks with other positions of the same sequences; context parallelism replaces this function.
        self.total: Callable[[Tensor], Tensor] = lambda counts: counts
        # The auxiliary loss of the last forward; None: there was no forward, or the loss already includes it.
        self.auxiliary: Tensor | None = None
        # The number of rows that each expert got from this rank since the last `take_counts`.
        self._counts: Tensor | None = None
        # The noise depends on the gate (`salt`) and on the tokens of the next rows (`keys`).
        self.salt = 0
        self.keys = torch.empty(0, dtype=torch.int64)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.flatten(0, 1)
        capacity = None if self.capacity_factor is None else self._capacity(len(rows), self.capacity_factor)
        factors, taken = self._route(rows, capacity)
        if capacity is not None:
            taken = taken & (taken.cumsum(0) <= capacity)
        expert, row = taken.t().nonzero(as_tuple=True)
        counts = taken.sum(0)
        if self.training and not _runs_again():
            self._counts = counts if self._counts is None else self._counts + counts
        outputs = self.exchange(rows[row], counts, self.experts)
        weighted = outputs * factors[row, expert].unsqueeze(1)
        return torch.zeros_like(rows).index_add(0, row, weighted.to(rows.dtype)).view(x.shape)

    def take_counts(self) -> Tensor:
        """Returns the number of rows that each expert got from this rank since the last call."""
        counts, self._counts = self._counts, None
        return torch.zeros(self.num_experts, dtype=torch.int64) if counts is None else counts

    def _capacity(self, rows: int, factor: float) -> int:
        return int(min(rows, math.ceil(factor * rows * self.top / self.num_experts)))

    def _route(self, rows: Tensor, capacity: int | None) -> tuple[Tensor, Tensor]:
        """Returns the factor of each row and expert, and whether the expert gets the row. Shapes: [rows, experts] each."""
        logits = self.gate(rows).float()
        if self.has_noise:
            logits = logits + gumbel_noise(self.keys, self.salt, self.num_experts)
        probabilities = torch.softmax(logits, -1)
        by_row = self.router != "expert-choice"
        dim, most = (1, self.top) if by_row else (0, capacity or 1)
        # Among equal values, the first one counts as the largest.
        best = probabilities.detach().sort(dim=dim, descending=True, stable=True).indices.narrow(dim, 0, most)
        chosen = torch.zeros_like(probabilities, dtype=torch.bool).scatter(dim, best, True)
        if by_row:
            self._balance(probabilities, chosen)
        if self.has_noise:
            # The factors are exactly 1, and have the gradient of the probabilities (straight-through).
            return chosen + (probabilities - probabilities.detach()), chosen
        if self.router != "topk":
            return probabilities, chosen
        kept = probabilities * chosen
        return kept / kept.sum(-1, keepdim=True), chosen

    def _balance(self, probabilities: Tensor, chosen: Tensor) -> None:
        """Computes the auxiliary loss. Source: Fedus et al. 2021, equations 4 to 6."""
        if self.balance == 0 or not self.training:
            return
        counts = self.total(chosen.sum(0, dtype=torch.int32)).float()
        loss = self.balance * self.num_experts * (counts / counts.sum() * probabilities.mean(0)).sum()
        # A forward that runs again computes the same loss, which was already stored.
        if not _runs_again():
            self.auxiliary = loss


def _runs_again() -> bool:
    """Whether a forward runs again within backward (activation checkpointing)."""
    return bool(torch._C._current_graph_task_id() >= 0)


class MoeBlock(AttentionBlock):
    """A block whose feed-forward layer is a mixture of experts."""

    def __init__(self, shape: Json) -> None:
        super().__init__(shape)
        self.moe = MixtureOfExperts(shape)

    def feed(self, x: Tensor) -> Tensor:
        out: Tensor = self.moe(x)
        return out


class MoeGPT(GPT):
    """A GPT whose blocks have experts."""

    block = MoeBlock


def mixtures_in(models: Iterable[nn.Module]) -> list[MixtureOfExperts]:
    """Returns all mixtures of experts in some models."""
    return [module for model in models for module in model.modules() if isinstance(module, MixtureOfExperts)]


def seed_noise(model: nn.Module, seed: int) -> None:
    """Sets the seed of the noise of all gates; the names of modules are those of the whole model."""
    for name, module in model.named_modules():
        if isinstance(module, MixtureOfExperts):
            module.salt = salt_of(seed, f"{name}.gate")


def read_keys(models: Iterable[nn.Module], keys_of: Callable[[], Tensor]) -> None:
    """Stores the keys of the next batch's tokens in each layer with noise. `keys_of` is called only if there is such a layer."""
    noisy = [mixture for mixture in mixtures_in(models) if mixture.has_noise]
    if noisy:
        keys = keys_of().flatten()
        for mixture in noisy:
            mixture.keys = keys


def with_auxiliary(loss: Tensor, models: Iterable[nn.Module]) -> Tensor:
    """Adds the auxiliary losses of the last forward to a loss."""
    for mixture in mixtures_in(models):
        if mixture.auxiliary is not None:
            loss = loss + mixture.auxiliary
            mixture.auxiliary = None
    return loss
