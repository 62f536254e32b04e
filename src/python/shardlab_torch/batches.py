"""The batches of a run, which the launcher makes."""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from .courier import Courier
from .errors import Json, ShardlabError


class Batches:
    """
    Asks the launcher for the microbatches of a data-parallel rank. Training asks one step ahead, so that it does not wait.
    Shapes: tokens [batch, seq + 1].
    """

    def __init__(self, courier: Courier, run: int, rank: int, device: torch.device) -> None:
        self._courier = courier
        self._run = run
        self._rank = rank
        self._device = device
        self._asked: dict[int, int] = {}

    def step(self, first: int, count: int) -> tuple[list[Tensor], list[float]]:
        """Returns the microbatches of a step, and the learning rates of the parameters' groups."""
        reply, tokens = self._take("train", first, count)
        self._ask("train", first + count, count)
        return tokens, [float(rate) for rate in reply["lrs"][0]]

    def validation(self, first: int, count: int) -> tuple[list[tuple[Tensor, int]], bool]:
        """Returns batches that are never trained on, each with the number of its rows that count; and whether they are the last."""
        reply, tokens = self._take("validation", first, count)
        return list(zip(tokens, reply["counts"], strict=True)), bool(reply["last"])

    def forget(self) -> None:
        """Drops what was asked ahead."""
        for request in self._asked.values():
            self._courier.reply(request)
        self._asked.clear()

    def _ask(self, what: str, first: int, count: int) -> int:
        request = self._courier.request({"run": self._run, "what": what, "rank": self._rank, "first": first, "count": count})
        if what == "train":
            self._asked[first] = request
        return request

    def _take(self, what: str, first: int, count: int) -> tuple[Json, list[Tensor]]:
        request = self._asked.get(first) if what == "train" else None
        if request is None:
            request = self._ask(what, first, count)
        reply, blob = self._courier.reply(request)
        if what == "train":
            del self._asked[first]
        if reply["type"] == "noBatches":
            raise ShardlabError(reply["error"]["code"], reply["error"]["message"])
        shape = reply["tokens"]["shape"]
        flat = torch.frombuffer(bytearray(blob), dtype=torch.int32) if blob else torch.empty(0, dtype=torch.int32)
        if sys.byteorder == "big":
            flat = flat.view(torch.uint8).view(-1, 4).flip(1).reshape(-1).view(torch.int32)
        tokens = flat.reshape(shape).to(self._device, torch.int64)
        return reply, list(tokens)
