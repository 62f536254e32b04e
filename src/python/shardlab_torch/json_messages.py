"""JSON between ranks. torch's own collectives of objects are not used: they unpickle what arrives, and a pickle can run any code."""

from __future__ import annotations

import json
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup


def broadcast_json(value: Any, source: int, group: ProcessGroup, device: torch.device) -> Any:
    """Returns the value of the rank `source`; the other ranks' values do not matter."""
    text = _bytes(value, device)
    size = torch.tensor([text.numel()], device=device)
    dist.broadcast(size, source, group=group)
    if dist.get_rank() != source:
        text = torch.empty(int(size), dtype=torch.uint8, device=device)
    dist.broadcast(text, source, group=group)
    return _value(text)


def gather_json(value: Any, group: ProcessGroup, device: torch.device) -> list[Any]:
    """Returns the values of all ranks of a group, in their order."""
    text = _bytes(value, device)
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(group.size())]
    dist.all_gather(sizes, torch.tensor([text.numel()], device=device), group=group)
    longest = max(int(size) for size in sizes)
    texts = [torch.zeros(longest, dtype=torch.uint8, device=device) for _ in sizes]
    dist.all_gather(texts, torch.nn.functional.pad(text, (0, longest - text.numel())), group=group)
    return [_value(one[: int(size)]) for one, size in zip(texts, sizes)]


def send_json(value: Any, receiver: int, group: ProcessGroup, device: torch.device) -> None:
    """Sends a value to the rank `receiver`, which calls `receive_json`."""
    text = _bytes(value, device)
    dist.send(torch.tensor([text.numel()], device=device), receiver, group=group)
    dist.send(text, receiver, group=group)


def receive_json(sender: int, group: ProcessGroup, device: torch.device) -> Any:
    """Returns the value that the rank `sender` sends."""
    size = torch.zeros(1, dtype=torch.int64, device=device)
    dist.recv(size, sender, group=group)
    text = torch.empty(int(size), dtype=torch.uint8, device=device)
    dist.recv(text, sender, group=group)
    return _value(text)


def _bytes(value: Any, device: torch.device) -> Tensor:
    return torch.tensor(list(json.dumps(value).encode()), dtype=torch.uint8, device=device)


def _value(text: Tensor) -> Any:
    return json.loads(bytes(text.tolist()))
