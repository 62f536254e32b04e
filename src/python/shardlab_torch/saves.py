"""Saves, loads and reshards a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .checkpoint import Reader, Writer, folder_to_read, mark_of
from .errors import Json, ShardlabError
from .json_messages import broadcast_json, gather_json
from .states import GRADIENT, VALUES
from .trainer import Trainer

Progress = Callable[[int, int], None]
# A detail of errors: a failed load has changed nothing.
NOTHING_WRITTEN = "nothingWritten"
# The most attempts to open a checkpoint that other processes replace meanwhile.
MOST_ATTEMPTS = 20


class NotWritten(ShardlabError):
    """A checkpoint could not be written. Every rank of the run raises this error, and the run does not change."""

    def __init__(self, message: str) -> None:
        super().__init__("IO", message)


def stored_name(name: str, state: str) -> str:
    """Returns the name of a tensor in a checkpoint."""
    return name if state == VALUES else f"{name}.{state}"


def save(trainer: Trainer, work: Json, writer: Writer | None) -> int:
    """Saves a run as whole tensors; returns the bytes written. Every rank must call this function; only the first has a writer."""
    beside: str = work["beside"]
    if beside == "gradients":
        trainer.strategy.rest()
    else:
        trainer.rest()
    names = {"states": trainer.states.state_names, "gradients": [GRADIENT], "nothing": []}[beside]
    _on_first(trainer, None if writer is None else writer.open)
    return _write(trainer, work, writer, names)


def _write(trainer: Trainer, work: Json, writer: Writer | None, names: list[str]) -> int:
    total = 0
    failure: OSError | None = None
    for kind, states in (("model", [VALUES]), ("optimizer", names)):
        if not states:
            continue
        tensors = _tensors(trainer, states)
        try:
            if writer is not None and failure is None:
                total += writer.write(kind, tensors)
        except OSError as error:
            failure = error
        for _ in tensors:
            pass  # all ranks must take part in gathering the remaining tensors
    state = trainer.shared_state(work.get("torchState") or {})
    counts: Json = {key: state[key] for key in ("stepsLeftOut", "leftOutNext", "lr", "lrs") if key in state}
    optimizer = {"steps": trainer.optimizer_steps, **counts, "states": names}
    kept = {"state": state, "config": trainer.config, "evaluations": work["evaluations"]}

    def commit() -> None:
        if failure is not None:
            raise failure
        if writer is not None:
            writer.commit(len(trainer.layout.ranks), None if work["beside"] == "nothing" else optimizer, kept)

    _on_first(trainer, commit)
    return total


def _on_first(trainer: Trainer, work: Callable[[], Any] | None) -> Any:
    """Runs work of the first rank; if it fails, every rank raises its error."""
    layout = trainer.layout
    is_first = layout.world.rank == layout.ranks[0]
    value, message = None, ""
    if is_first and work is not None:
        try:
            value = work()
        except OSError as error:
            message = f"the checkpoint cannot be written: {error}; make room there, or save to another folder"
        except (ShardlabError, ValueError) as error:
            message = str(error) or type(error).__name__
    message = broadcast_json(message, layout.ranks[0], layout.group, layout.world.device)
    if message:
        raise NotWritten(message)
    return value


def _tensors(trainer: Trainer, states: list[str]) -> Iterator[tuple[str, Tensor]]:
    """Yields the names and values of whole tensors; gradients have their values before clipping."""
    for name, state in trainer.states.keys(states):
        value = trainer.states.whole(name, state)
        yield stored_name(name, state), value / trainer.clip_scale if state == GRADIENT else value
    for name, buffer in trainer.stages.buffers.items() if VALUES in states else ():
        yield name, buffer.detach().float()


def load_values(trainer: Trainer, folder: str) -> int:
    """Reads only parameters and buffers; each rank takes its parts. Returns the bytes read."""
    return _copy_values(trainer, _fitting_values(trainer, folder_to_read(folder)))


def _fitting_values(trainer: Trainer, folder: str) -> Reader:
    """Opens a folder's parameters. Raises ShardlabError if they do not fit the model."""
    reader = Reader(folder, "model")
    # Files of other programs may have no buffers.
    buffers = {name: each for name, each in trainer.stages.buffers.items() if name in reader.names}
    reader.require({**trainer.stages.shapes, **{name: each.shape for name, each in buffers.items()}})
    return reader


def _copy_values(trainer: Trainer, reader: Reader) -> int:
    for name, buffer in trainer.stages.buffers.items():
        if name in reader.names:
            buffer.copy_(reader.tensor(name))
    for name in trainer.states.parameters:
        trainer.states.put(name, VALUES, reader.tensor(name).to(trainer.layout.world.device))
    return reader.bytes_read


def load(trainer: Trainer, work: Json, progress: Progress, changes: Callable[[], None]) -> Json:
    """
    Loads a checkpoint that any engine, world and strategy may have saved. Every rank must call this function. It calls `changes`
    before it writes the first value; an error before that says that nothing was written.
    """
    trainer.rest()
    kept, values, moments = _open_same(trainer, work["folder"], work["parametersOnly"])
    changes()
    read = _copy_values(trainer, values)
    if work["parametersOnly"]:
        return {"steps": None, "evaluations": [], "bytesRead": read}
    if moments is not None:
        read += _copy_moments(trainer, moments, progress)
    state = kept["state"]
    trainer.restore(state)
    facts = {"lrs": state.get("lrs") or [state["lr"]], "schedule": state.get("schedule"), "bytesRead": read}
    return {"steps": trainer.steps, "evaluations": kept.get("evaluations", []), **facts}


Opened = tuple[Json, Reader, "Reader | None"]


def _open_same(trainer: Trainer, given: str, parameters_only: bool) -> Opened:
    """
    Opens a checkpoint on every rank; all ranks open the same one, or all raise ShardlabError. Another process may replace the checkpoint
    meanwhile, so ranks compare its id before and after, and open it again if the ids differ.
    """
    layout = trainer.layout
    for _ in range(MOST_ATTEMPTS):
        before = _id_in(given)
        opened, failure = None, None
        try:
            opened = _open(trainer, folder_to_read(given), parameters_only)
        except (OSError, ValueError, ShardlabError) as error:
            failure = error if isinstance(error, ShardlabError) else ShardlabError("IO", f"cannot read {given}: {error}")
        told = {"ids": [before, _id_in(given)], "code": failure and failure.code, "text": str(failure)}
        every = gather_json(told, layout.group, layout.world.device)
        if len({one for each in every for one in each["ids"]}) > 1:
            continue
        for rank, each in zip(layout.ranks, every, strict=True):
            if each["code"] is not None:
                text = each["text"] if failure is not None else f"[rank {rank}] {each['text']}"
                raise ShardlabError(each["code"], text, {NOTHING_WRITTEN: True})
        if opened is not None:
            return opened
    raise ShardlabError(
        "IO", f"the ranks found different checkpoints in {given} each time: another program saves there, so wait for its end, or the "
        "ranks do not see the same files",
        {NOTHING_WRITTEN: True},
    )


def _open(trainer: Trainer, folder: str, parameters_only: bool) -> Opened:
    kept = {} if parameters_only else _trainer_kept(folder)
    if not parameters_only:
        _require_groups(trainer, kept["state"])
    values = _fitting_values(trainer, folder)
    return kept, values, None if parameters_only else _fitting_moments(trainer, folder)


def _id_in(given: str) -> Any:
    """Returns the id of the checkpoint in a folder; None: it has none."""
    try:
        return (mark_of(Path(folder_to_read(given))) or {}).get("id")
    except ShardlabError:
        return None


def _trainer_kept(folder: str) -> Json:
    """Returns the trainer's part of a checkpoint. Raises ShardlabError if training cannot continue from the checkpoint."""
    saved = mark_of(Path(folder))
    kept = (saved or {}).get("trainer") or {}
    state = kept.get("state") if isinstance(kept, dict) else None
    if saved is None or saved.get("optimizer") is None or not isinstance(state, dict):
        raise ShardlabError(
            "IO", f"{folder} has no optimizer states or no trainer's state, so training cannot continue from it; load only its parameters: "
            "run.load(path, { parametersOnly: true })",
        )
    return dict(kept)


def _require_groups(trainer: Trainer, state: Json) -> None:
    """Raises ShardlabError if a checkpoint's optimizer has another number of groups of parameters."""
    own, saved = len(trainer.rates), len(state.get("lrs") or [state["lr"]])
    if own != saved:
        raise ShardlabError(
            "CONFIG", f"the saved optimizer has {saved} parameter groups, but this optimizer has {own}; make the same groups, or load only "
            "the parameters",
        )


def _fitting_moments(trainer: Trainer, folder: str) -> Reader | None:
    """Opens a folder's optimizer states; None: the optimizer has none. Raises ShardlabError if they do not fit."""
    states = trainer.states
    if not states.state_names:
        return None
    moments = Reader(folder, "optimizer")
    keys = states.keys(states.state_names)
    moments.require({stored_name(name, each): trainer.stages.shapes[name] for name, each in keys})
    return moments


def _copy_moments(trainer: Trainer, moments: Reader, progress: Progress) -> int:
    states = trainer.states
    own = [key for key in states.keys(states.state_names) if key[0] in states.parameters]
    for done, (name, each) in enumerate(own):
        states.put(name, each, moments.tensor(stored_name(name, each)).to(trainer.layout.world.device))
        if done % 16 == 15:
            progress(done + 1, len(own))
    return moments.bytes_read


def reshard(old: Trainer | None, new: Trainer | None, group: dist.ProcessGroup, ranks: list[int], progress: Progress) -> Json:
    """Moves a run's tensors to another trainer one by one, and compares each moved tensor with the old one, bit by bit."""
    side = old or new
    device = torch.device("cpu") if side is None else side.layout.world.device
    state = broadcast_json(None if old is None else {**old.shared_state({}), "schedule": None}, ranks[0], group, device)
    if state is None or side is None:
        raise ShardlabError("INTERNAL", "rank 0 has no run to reshard")
    progress(0, 1)
    if old is not None:
        old.rest()
    has_states = state["optimizerSteps"] > 0
    keys = side.states.keys([VALUES, *(side.states.state_names if has_states else [])])
    moved = compared = received = 0
    for done, (name, each) in enumerate(keys):
        value = torch.empty(side.stages.shapes[name], device=device) if old is None else old.states.whole(name, each)
        if old is None or new is None or len(old.layout.ranks) != len(new.layout.ranks):
            dist.broadcast(value, ranks[0], group=group)
        moved += 4 * value.numel()
        received += 4 * value.numel() if old is None else 0
        if new is not None:
            new.states.put(name, each, value)
            after = new.states.whole(name, each)
            if not torch.equal(after.view(torch.int32), value.contiguous().view(torch.int32)):
                raise ShardlabError("CHECK", f"{each} of {name} changed during the move; report this error with the config")
            compared += 4 * value.numel()
        progress(done + 1, len(keys))
    for name, buffer in side.stages.buffers.items():
        value = buffer.float()
        dist.broadcast(value, ranks[0], group=group)
        if new is not None:
            new.stages.buffers[name].copy_(value)
    if new is not None:
        new.restore(state)
    return {"numTensors": len(keys), "numCoded": 0, "bytes": moved, "receivedBytes": received, "comparedBytes": compared}
