"""The collectives that this rank has called by Python: their numbers, and the one in which the main thread waits."""

from __future__ import annotations

import threading
import time
import weakref
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Iterator, Sequence

import torch
import torch.distributed as dist
from torch.distributed import ProcessGroup
from torch.distributed.pipelining import stage as stages
from torch.utils.weak import WeakTensorKeyDictionary

from .collective_call import OPS, parse_call
from .op_mode import address_of

# By the method of a pipeline's stage that prepares messages of a microbatch: what is sent, and the steps from the stage to the
# sender, and to the first of the two stages between which it travels.
_MESSAGES = {
    "get_fwd_recv_ops": ("output", -1, -1),
    "get_fwd_send_ops": ("output", 0, 0),
    "get_bwd_recv_ops": ("gradient", 1, 0),
    "get_bwd_send_ops": ("gradient", 0, -1),
}


# The methods by which a pipeline's stages agree on their work before the first microbatch.
_SET_UPS = ("_warmup_forward_vote", "_warmup_backward_result", "_prepare_forward_infra", "_prepare_backward_infra")

# Results of functional collectives that nobody awaited are forgotten from this number on.
_MOST_RESULTS = 1000


@dataclass(frozen=True)
class Message:
    """What a stage of a pipeline sends, as stages of Node describe it (src/sharding/pipeline/mail.ts)."""

    detail: str
    module: str


@dataclass(frozen=True)
class Call:
    """
    A collective that this rank has called. `number` counts the collectives of the group, or the sends or the recvs from one rank to
    another, from 1. `peer` is a rank within the group; None: the call is no send or recv, or a recv from any rank.
    """

    op: str
    group: ProcessGroup
    number: int
    peer: int | None
    message: Message | None


class Calls:
    """
    Counts the calls of this process's groups, and knows in which one the main thread waits.

    gloo counts sends and recvs as collectives, so its numbers differ between ranks; these numbers are the same on all ranks.
    """

    def __init__(self) -> None:
        # The call in which the main thread waits, and since when.
        self.waiting: tuple[Call, float] | None = None
        # By the group's name, torch's number when the group was admitted; groups of other backends do not count sends and recvs.
        self._first: dict[str, int] = {}
        # By the group's name, operation and peer (-1: any rank).
        self._pairs: defaultdict[str, dict[tuple[str, int], int]] = defaultdict(dict)
        self._works: weakref.WeakKeyDictionary[Any, Call] = weakref.WeakKeyDictionary()
        self._messages: Any = WeakTensorKeyDictionary()
        # The calls of functional collectives, by the address of the result.
        self._results: dict[int, Call] = {}
        # What sends and recvs without another description carry now.
        self._set_up: Message | None = None
        self._main = threading.get_ident()
        for name in dir(ProcessGroup):
            op = OPS.get(name) or OPS.get(f"{name}_") or {"recv_anysource": "recv"}.get(name)
            if op is not None:
                _wrap(ProcessGroup, name, partial(self._noting, op))
        _wrap(torch._C._distributed_c10d.Work, "wait", self._waiting_in)
        for name in _MESSAGES:
            _wrap(stages._PipelineStageBase, name, partial(self._describing, name))
        for name in _SET_UPS:
            _wrap(stages.PipelineStage, name, self._setting_up)

    def admit(self, group: ProcessGroup) -> None:
        """Counts the calls of a group from now on, if it is one of gloo."""
        if "gloo" not in str(dist.get_backend_config(group)):
            return
        self._first[group.group_name] = _torch_number(group)
        self._pairs.pop(group.group_name, None)

    def number(self, group: ProcessGroup) -> int:
        """Returns the number of a group's newest collective."""
        first = self._first.get(group.group_name)
        if first is None:
            return _torch_number(group)
        return _torch_number(group) - first - sum(self.pairs(group).values())

    def pairs(self, group: ProcessGroup) -> dict[tuple[str, int], int]:
        """Returns the numbers of the newest sends and recvs of a group, by operation and the peer's rank within the group."""
        return dict(self._pairs.get(group.group_name, {}))

    def forget(self) -> None:
        """Forgets all groups, which have ended."""
        self._first.clear()
        self._pairs.clear()

    def run_functional(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Runs an operation of the functional collectives (`torch.ops._c10d_functional`), which have no works."""
        if func._schema.name.endswith("::wait_tensor"):
            with self._in(self._results.pop(address_of(args[0]), None)):
                return func(*args, **kwargs)
        result = func(*args, **kwargs)
        call = parse_call(func, args, kwargs)
        if call is not None:
            if len(self._results) >= _MOST_RESULTS:
                self._results.clear()
            self._results[address_of(result)] = Call(call.op, call.group, self.number(call.group), None, None)
        return result

    def _noting(self, op: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a method of groups that stores which call its work belongs to."""

        def call(group: Any, *args: Any, **kwargs: Any) -> Any:
            work = original(group, *args, **kwargs)
            if work is not None:
                self._works[work] = self._call_of(group, op, args)
            return work

        return call

    def _call_of(self, group: ProcessGroup, op: str, args: tuple[Any, ...]) -> Call:
        if op not in ("send", "recv"):
            return Call(op, group, self.number(group), None, None)
        tensors, peer = args[0], args[1] if len(args) > 2 else None
        pairs = self._pairs[group.group_name]
        key = (op, -1 if peer is None else peer)
        pairs[key] = pairs.get(key, 0) + 1
        return Call(op, group, pairs[key], peer, self._messages.pop(tensors[0], self._set_up))

    def _waiting_in(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._main:
                return original(work, *args, **kwargs)
            with self._in(self._works.get(work)):
                return original(work, *args, **kwargs)

        return wait

    @contextmanager
    def _in(self, call: Call | None) -> Iterator[None]:
        self.waiting = None if call is None else (call, time.monotonic())
        try:
            yield
        finally:
            self.waiting = None

    def _describing(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a method of a pipeline's stage that also stores what its tensors are."""
        content, to_sender, to_first = _MESSAGES[name]

        def prepare(stage: Any, microbatch: int, *args: Any, **kwargs: Any) -> Any:
            operations = original(stage, microbatch, *args, **kwargs)
            index = stage.stage_index
            first = index + to_first
            message = Message(
                f"the {content} of microbatch {microbatch} from stage {index + to_sender}", f"stage {first} | {first + 1}"
            )
            for operation in operations:
                self._messages[operation.tensor] = message
            return operations

        return prepare


    def _setting_up(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a method by which a pipeline's stage agrees with its neighbours."""

        def set_up(stage: Any, *args: Any, **kwargs: Any) -> Any:
            self._set_up = Message("the set-up of the pipeline", f"stage {stage.stage_index}")
            try:
                return original(stage, *args, **kwargs)
            finally:
                self._set_up = None

        return set_up


def _wrap(kind: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replaces a method, if this version of torch has it."""
    original = getattr(kind, name, None)
    if original is not None:
        setattr(kind, name, make(original))


def _torch_number(group: Any) -> int:
    return int(group._get_sequence_number_for_group())
