"""Reports what the main thread does at a moment, from its Python stack, for `job.status()` and `job.why()`."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType

import torch.distributed as dist

from . import op_mode
from .errors import Json

MAX_STACK_LINES = 30
# A thread waits if it gets less CPU time than BUSY_SHARE of a sample of SAMPLE_SECONDS.
SAMPLE_SECONDS = 0.02
BUSY_SHARE = 0.2

# By name, the functions of torch in which a thread waits for other ranks; the value is our name of the collective.
_OPS = {
    "all_reduce": "allReduce",
    "all_reduce_coalesced": "allReduce",
    "all_reduce_backward": "allReduce",
    "reduce": "allReduce",
    "reduce_scatter": "reduceScatter",
    "reduce_scatter_tensor": "reduceScatter",
    "reduce_scatter_single": "reduceScatter",
    "foreach_reduce": "reduceScatter",
    "all_gather": "allGather",
    "all_gather_into_tensor": "allGather",
    "all_gather_single": "allGather",
    "all_gather_tensor": "allGather",
    "all_gather_object": "allGather",
    "gather": "allGather",
    "gather_object": "allGather",
    "foreach_all_gather": "allGather",
    "foreach_all_gather_copy_out": "allGather",
    "broadcast": "broadcast",
    "broadcast_object_list": "broadcast",
    "scatter": "broadcast",
    "all_to_all": "allToAll",
    "all_to_all_single": "allToAll",
    "send": "send",
    "isend": "send",
    "recv": "recv",
    "irecv": "recv",
    "batch_isend_irecv": "recv",
    "_wait_batch_p2p": "recv",
    "barrier": "barrier",
    "monitored_barrier": "barrier",
    "new_group": "barrier",
    "_store_based_barrier": "barrier",
}
# DDP's reducer, which has no Python frame of its own, waits within this function.
_BACKWARD = "_engine_run_backward"

# Takes one of torch's groups or None; returns the group's name here, its global ranks and the number of its newest collective.
DescribeGroup = Callable[[object], tuple[str, list[int], int]]


class Watcher:
    """Inspects the main thread from another thread."""

    def __init__(self, describe: DescribeGroup) -> None:
        self._describe = describe
        self._main = threading.main_thread()
        # The newest wait that was seen, and when it was first seen.
        self._wait: tuple[Json, float] = ({}, 0.0)

    def look(self, since: float, is_busy: bool, cell: int | None, module: str) -> Json:
        """Returns the situation of the main thread; `module` is the module that the thread runs, '' if this is unknown."""
        situation: Json = {"state": "running" if is_busy else "idle", "since": since, "hasBackground": False, "lastCalled": {}}
        if cell is not None:
            situation["cell"] = cell
        frame = sys._current_frames().get(self._main.ident or 0)
        if not is_busy or frame is None:
            return situation
        situation["stack"] = _stack_of(frame)
        found = _collective_in(frame)
        waits = self._waits()
        if found is None or not waits:
            place = _cell_place(frame, cell)
            line = f"cell {place['cell']}, line {place['line']}" if place else ""
            situation["look"] = {"place": line, "numOps": op_mode.num_ops(), "isAwaiting": False}
            return situation
        op, caller = found
        group, ranks, number = self._describe(caller.f_locals.get("group"))
        peer = caller.f_locals.get({"send": "dst", "recv": "src"}.get(op, ""))
        if isinstance(peer, int):
            ranks = [dist.get_rank(), peer]
        waiting: Json = {"op": op, "group": group, "ranks": ranks, "number": number, "module": module}
        waiting.update(_cell_place(frame, cell))
        if self._wait[0] != waiting:
            self._wait = (waiting, time.monotonic())
        return {**situation, "state": "waiting", "since": self._wait[1], "waiting": waiting, "lastCalled": {group: number}}

    def _waits(self) -> bool:
        """Whether the main thread gets no CPU time now."""
        ident = self._main.ident
        if ident is None or not hasattr(time, "pthread_getcpuclockid"):
            return True
        clock = time.pthread_getcpuclockid(ident)
        before = time.clock_gettime(clock)
        time.sleep(SAMPLE_SECONDS)
        return time.clock_gettime(clock) - before < BUSY_SHARE * SAMPLE_SECONDS


def _stack_of(frame: FrameType) -> list[str]:
    summaries = traceback.extract_stack(frame)[-MAX_STACK_LINES:]
    return [f"{place.filename}:{place.lineno} {place.name}" for place in summaries]


def _collective_in(frame: FrameType) -> tuple[str, FrameType] | None:
    """Returns the innermost collective of a stack, and its frame."""
    place: FrameType | None = frame
    while place is not None:
        code = place.f_code
        if "torch/distributed" in code.co_filename.replace("\\", "/") and code.co_name in _OPS:
            return _OPS[code.co_name], place
        if code.co_name == _BACKWARD:
            return "allReduce", place
        place = place.f_back
    return None


def _cell_place(frame: FrameType, cell: int | None) -> Json:
    place: FrameType | None = frame
    while cell is not None and place is not None:
        if place.f_code.co_filename == f"In[{cell}]":
            return {"cell": cell, "line": place.f_lineno}
        place = place.f_back
    return {}
