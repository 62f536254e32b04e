"""The batches of a run, which the launcher makes."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .courier import Courier
from .errors import Json, ShardlabError

# For each type on the wire: the type in memory, and the type in which models read the values.
_TYPES = {"int32": (torch.int32, torch.int64), "float32": (torch.float32, torch.float32)}


@dataclass(frozen=True)
class Batch:
    """A microbatch of one data-parallel rank."""

    # Token ids [B, T + 1], for instructions also labels [B, T] (-100 does not count); or tensors of videos (flow_matching.py).
    tensors: tuple[Tensor, ...]
    # For packed rows, the lengths of each row's documents.
    lengths: list[list[int]] | None = None
    # The loss is the mean over all positions, multiplied by this factor.
    factor: float = 1.0
    # Whether only some tokens count in the loss. If so, the second tensor has the labels.
    has_labels: bool = False

    @property
    def documents(self) -> list[int] | None:
        """The lengths of the documents of a packed batch, which is one row."""
        return None if self.lengths is None else [length for row in self.lengths for length in row]

    def tokens(self) -> tuple[Tensor, Tensor]:
        """Returns the ids and targets of a language model. Shapes: [B, T] each; for a packed batch [1, B · T]."""
        tokens = self.tensors[0]
        ids, targets = tokens[:, :-1], self.tensors[1] if self.has_labels else tokens[:, 1:]
        return (ids, targets) if self.lengths is None else (ids.reshape(1, -1), targets.reshape(1, -1))

    def rows(self, count: int) -> Batch:
        """Returns a batch of the first `count` rows."""
        return replace(self, tensors=tuple(each[:count] for each in self.tensors), lengths=self.lengths and self.lengths[:count])


class Batches:
    """Requests the microbatches of a data-parallel rank from the launcher, one step ahead, so that training does not wait."""

    def __init__(self, courier: Courier, run: int, rank: int, device: torch.device) -> None:
        self._courier = courier
        self._run = run
        self._rank = rank
        self._device = device
        self._asked: dict[int, int] = {}

    def step(self, first: int, count: int, skipped: int) -> tuple[list[Batch], list[float]]:
        """
        Returns the microbatches of a step, and the learning rates of the parameters' groups. `skipped` is the number of steps
        whose update was left out; a schedule of rates does not count these steps.
        """
        reply, batches = self._take("train", first, count, skipped)
        self._ask("train", first + count, count, skipped)
        return batches, [float(rate) for rate in reply["lrs"][0]]

    def validation(self, first: int, count: int) -> tuple[list[tuple[Batch, int]], bool]:
        """Returns validation batches, each with the number of its rows that count, and whether these batches are the last."""
        reply, batches = self._take("validation", first, count)
        return list(zip(batches, reply["counts"], strict=True)), bool(reply["last"])

    def forget(self) -> None:
        """Drops the batches that were requested ahead."""
        for request in self._asked.values():
            self._courier.reply(request)
        self._asked.clear()

    def _ask(self, what: str, first: int, count: int, skipped: int) -> int:
        place = {"run": self._run, "what": what, "rank": self._rank}
        request = self._courier.request({**place, "first": first, "count": count, "skipped": skipped})
        if what == "train":
            self._asked[first] = request
        return request

    def _take(self, what: str, first: int, count: int, skipped: int = 0) -> tuple[Json, list[Batch]]:
        request = self._asked.get(first) if what == "train" else None
        if request is None:
            request = self._ask(what, first, count, skipped)
        reply, blob = self._courier.reply(request)
        if what == "train":
            del self._asked[first]
        if reply["type"] == "noBatches":
            raise ShardlabError(reply["error"]["code"], reply["error"]["message"])
        data, start = torch.frombuffer(bytearray(blob), dtype=torch.uint8).view(-1, 4) if blob else torch.empty(0, 4), 0
        if sys.byteorder == "big":
            data = data.flip(1).contiguous()
        tensors = []
        for each in reply["tensors"]:
            size, (stored, used) = math.prod(each["shape"]), _TYPES[each["dtype"]]
            values = data[start : start + size].view(stored).reshape(each["shape"])
            tensors.append(values.to(self._device, used))
            start += size
        answers = reply.get("answers")
        factors = [1.0] * count if answers is None else answers["factors"]
        documents = (answers and answers["documents"]) or [None] * count
        made = zip(zip(*tensors, strict=True), documents, factors)
        return reply, [Batch(*each, has_labels=answers is not None) for each in made]
