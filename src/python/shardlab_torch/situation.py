"""Reports what the main thread does at a moment, from its Python stack, for `job.status()` and `job.why()`."""

from __future__ import annotations

import dis
import gc
import sys
import threading
import time
import traceback
from types import FrameType

from . import op_mode
from .calls import Call
from .errors import Json
from .world import World

MAX_STACK_LINES = 30
# A thread waits if it gets less CPU time than BUSY_SHARE of a sample of SAMPLE_SECONDS.
SAMPLE_SECONDS = 0.02
BUSY_SHARE = 0.2
# Native code computes if a thread stays in one call in this many samples.
NATIVE_SAMPLES = 4
# What a look at native code counts for, and a block of Python's memory, in bytes (src/launch/hang-watch.ts).
NATIVE_BYTES = 10_000_000
BLOCK_BYTES = 64

# By name, the functions of torch in which a thread waits for other ranks without a call of Python that `Calls` sees; the value is
# our name of the collective.
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
    "barrier": "barrier",
    "monitored_barrier": "barrier",
    "new_group": "barrier",
    "_store_based_barrier": "barrier",
}
# DDP's reducer, which has no Python frame of its own, waits within this function.
_BACKWARD = "_engine_run_backward"
# Functions that wait by the store. torch does not count them, so they have the number after the newest collective.
_BY_STORE = ("new_group", "_store_based_barrier", "monitored_barrier")


class Watcher:
    """Inspects the main thread from another thread."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._main = threading.main_thread()
        # The newest wait that was seen in a stack, when its work began, and when the wait was first seen.
        self._wait: tuple[Json, float, float] = ({}, 0.0, 0.0)
        # The number of looks that found the main thread computing in native code.
        self._native_looks = 0
        # The blocks of Python's memory at the newest look, and by how many they changed from look to look.
        self._blocks = sys.getallocatedblocks()
        self._changed_blocks = 0

    def look(self, since: float, is_busy: bool, cell: int | None, module: str) -> Json:
        """Returns the situation of the main thread; `module` is the module that the thread runs, '' if this is unknown."""
        situation: Json = {"state": "running" if is_busy else "idle", "since": since, "hasBackground": False}
        situation["lastCalled"] = self._world.last_called()
        if cell is not None:
            situation["cell"] = cell
        frame = sys._current_frames().get(self._main.ident or 0)
        if not is_busy or frame is None:
            return situation
        situation["stack"] = _stack_of(frame)
        call = self._world.calls.waiting
        waiting = self._waiting_by_stack(frame) if call is None else self._waiting_in(call[0])
        if waiting is None:
            place = _cell_place(frame, cell)
            line = f"cell {place['cell']}, line {place['line']}" if place else ""
            self._native_looks += self._computes_natively(frame)
            made = self._made_bytes()
            situation["look"] = {"place": line, "numOps": op_mode.num_ops(), "madeBytes": made, "isAwaiting": False}
            return situation
        waiting = {"module": module, **waiting, **_cell_place(frame, cell)}
        return {**situation, "state": "waiting", "since": self._since(waiting, since) if call is None else call[1], "waiting": waiting}

    def _since(self, waiting: Json, work_since: float) -> float:
        """Returns when a wait was first seen; in another work, the same numbers are another wait."""
        if self._wait[:2] != (waiting, work_since):
            self._wait = (waiting, work_since, time.monotonic())
        return self._wait[2]

    def _waiting_in(self, call: Call) -> Json:
        """Describes the call whose end the main thread awaits."""
        name, ranks, _ = self._world.describe(call.group)
        if call.op in ("send", "recv"):
            here = self._world.rank
            ranks = [here, *([rank for rank in ranks if rank != here] if call.peer is None else [ranks[call.peer]])]
        waiting: Json = {"op": call.op, "group": name, "ranks": ranks, "number": call.number, "isUnchecked": True}
        if call.message is not None:
            waiting.update(module=call.message.module, detail=call.message.detail)
        return waiting

    def _waiting_by_stack(self, frame: FrameType) -> Json | None:
        """Describes the collective in which C++ code waits; None: the main thread runs."""
        found = _collective_in(frame)
        if found is None or not self._waits():
            return None
        op, caller = found
        group, ranks, number = self._world.describe(caller.f_locals.get("group"))
        if caller.f_code.co_name in _BY_STORE:
            number += 1
        # A backward without collectives waits for a compiler, or for a thread of its own.
        if number == 0:
            return None
        return {"op": op, "group": group, "ranks": ranks, "number": number}

    def _made_bytes(self) -> int:
        """Returns a number that grows with each value that Python makes or drops, as far as it is known."""
        blocks = sys.getallocatedblocks()
        self._changed_blocks += abs(blocks - self._blocks)
        self._blocks = blocks
        # Blocks that come and go between two looks: the collector runs once for so many new containers.
        collected: int = gc.get_stats()[0]["collections"] * gc.get_threshold()[0]
        return self._native_looks * NATIVE_BYTES + (self._changed_blocks + collected) * BLOCK_BYTES

    def _computes_natively(self, frame: FrameType) -> bool:
        """Whether the main thread stays in one call and uses its core: a loop of Python comes to another instruction."""
        for _ in range(NATIVE_SAMPLES):
            at = frame.f_lasti
            if self._waits() or sys._current_frames().get(self._main.ident or 0) is not frame or frame.f_lasti != at:
                return False
        return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith(("CALL", "BINARY_OP"))

    def _waits(self) -> bool:
        """Whether the main thread gets no CPU time now, and needs none."""
        ident = self._main.ident
        if ident is None or not hasattr(time, "pthread_getcpuclockid"):
            return True
        clock = time.pthread_getcpuclockid(ident)
        before = time.clock_gettime(clock)
        time.sleep(SAMPLE_SECONDS)
        return time.clock_gettime(clock) - before < BUSY_SHARE * SAMPLE_SECONDS and not self._is_runnable()

    def _is_runnable(self) -> bool:
        """Whether the main thread would run if a core, or a page of memory or of a disk, were free. Source: proc(5)"""
        try:
            with open(f"/proc/self/task/{self._main.native_id}/stat", encoding="latin-1") as stat:
                return stat.read().rpartition(")")[2].split()[0] in ("R", "D")
        except OSError:
            return False


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
        # Python code that backward calls, such as a compiler, is no wait of the reducer.
        if code.co_name == _BACKWARD and place is frame:
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
