"""The output head of language models, and their loss."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate

from .errors import Json


def needs(shape: Json, key: str, default: Any) -> Any:
    """Returns a size of a model's shape; `default` if the shape does not give this size."""
    value = shape.get(key)
    return default if value is None else value


def head_output(x: Tensor, head: nn.Module | Tensor) -> Tensor:
    """
    Returns the logits; the head is a layer or the token embedding. Shapes: x [B, T, d] → [B, T, vocab]. If the embedding is split
    over ranks (tensor parallelism), the logits are split too.
    """
    if isinstance(head, nn.Module):
        logits: Tensor = head(x)
        return logits
    if isinstance(head, DTensor):
        # Under sequence parallelism, x is split over the positions.
        everywhere = [Replicate()]
        x = x.redistribute(placements=everywhere) if isinstance(x, DTensor) else DTensor.from_local(x, head.device_mesh, everywhere)
    return F.linear(x, head.to(x.dtype))


# The result of a model: logits, or a loss that the model computed, and the logits.
Output = Tensor | tuple[Tensor, Tensor]


def loss_of(output: Output, targets: Tensor, has_labels: bool = False) -> Tensor:
    """
    Returns the loss that the model computed, or else the mean cross-entropy over all tokens, in float32; positions with label
    -100 count as 0 in this mean. Shapes: logits [B, T, vocab], targets [B, T] → scalar.
    """
    if isinstance(output, tuple):
        return output[0].float()
    logits = output
    rows, labels = logits.flatten(0, 1).float(), targets.flatten()
    if has_labels:
        return F.cross_entropy(rows, labels, reduction="sum") / labels.numel()
    return F.cross_entropy(rows, labels)


def whole_logits(output: Output) -> Tensor:
    """Returns the logits of the whole vocabulary."""
    logits = output[1] if isinstance(output, tuple) else output
    whole = logits.full_tensor() if isinstance(logits, DTensor) else logits
    return whole.to(torch.float32)
