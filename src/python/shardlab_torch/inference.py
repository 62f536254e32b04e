"""Evaluates a run, and samples from its model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from .errors import Json, ShardlabError
from .trainer import Trainer

# The number of validation batches per request.
CHUNK = 4
Progress = Callable[[int, int], None]


@contextmanager
def inferring(trainer: Trainer) -> Iterator[None]:
    """Puts the model into eval mode within the context; at its end, frees the whole parameters that forwards did not free."""
    modules = trainer.strategy.modules
    for module in modules:
        module.eval()
    try:
        yield
    finally:
        for module in modules:
            module.train()
        trainer.strategy.rest()


def evaluate(trainer: Trainer, work: Json, progress: Progress) -> Json:
    """Returns the mean loss over all validation rows of all ranks. Every rank must call this function."""
    if work.get("metrics"):
        raise ShardlabError(
            "CONFIG", "engine 'torch': run.evaluate({ metrics }) is not done here, because metrics are JavaScript; evaluate without them"
        )
    total, rows, first = 0.0, 0, 0
    is_last = False
    with inferring(trainer):
        while not is_last:
            batches, is_last = trainer.batches.validation(first, CHUNK)
            for batch, counted in batches:
                # A rank that has no row left still runs a batch, because other ranks need its collectives.
                loss = trainer.passes.loss(batch.rows(max(1, counted)))
                if counted > 0:
                    total += loss * counted
                    rows += counted
            first += len(batches)
            progress(first, 0)
    layout = trainer.layout
    sums = torch.tensor([total, float(rows)], dtype=torch.float64, device=layout.world.device)
    if layout.dp > 1:
        dist.all_reduce(sums, group=layout.dp_group)
    loss, count = sums.tolist()
    return {"loss": loss / count if count else float("nan"), "rows": int(count) // layout.cp, "metrics": {}, "countedRows": False}


def sample(trainer: Trainer, work: Json, progress: Progress) -> list[int]:
    """Samples tokens after the given ids; all ranks return the same ids. Every rank must call this function."""
    shape, layout = trainer.shape, trainer.layout
    ids: list[int] = list(work["ids"])
    wrong = [one for one in ids if not 0 <= one < shape["vocab"]]
    if wrong:
        raise ShardlabError("CONFIG", f"sample: the model has the tokens 0 to {shape['vocab'] - 1}, but an id is {wrong[0]}")
    random = torch.Generator().manual_seed(int(work["seed"]))
    with inferring(trainer):
        for done in range(int(work["tokens"])):
            seen = torch.tensor([ids[-shape["seq"] :]], device=layout.world.device)
            logits = trainer.passes.logits(seen)
            token = -1.0 if logits is None else float(_chosen(logits.cpu(), work, random))
            # The first rank chooses the token, because rounding could make other ranks choose another one.
            agreed = torch.tensor([trainer.passes.shared(token)], dtype=torch.float64, device=layout.world.device)
            dist.broadcast(agreed, layout.ranks[0], group=layout.group)
            ids.append(int(agreed))
            progress(done + 1, int(work["tokens"]))
    return ids


def _chosen(logits: torch.Tensor, work: Json, random: torch.Generator) -> int:
    """Chooses a token. Source: Hugging Face's TemperatureLogitsWarper and TopKLogitsWarper."""
    if work["temperature"] == 0:
        return int(logits.argmax())
    top = work["topK"]
    if top is not None and top < len(logits):
        least = logits.topk(top).values[-1]
        logits = logits.masked_fill(logits < least, float("-inf"))
    weights = torch.softmax(logits / work["temperature"], dim=0)
    return int(torch.multinomial(weights, 1, generator=random))
