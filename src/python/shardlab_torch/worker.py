"""The main thread of a rank: it performs the launcher's orders one after another."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import time
import traceback
from typing import Any

import torch

from .cell_ledger import CellLedger
from .courier import Courier, end_process
from .errors import Json, ShardlabError, cut, rank_error
from .output import Output
from .runs import Runs
from .situation import Watcher
from .values import decode
from .variables import Variables, value_or_text
from .world import World, is_lost


class Worker:
    """Performs work and reports how it ended."""

    def __init__(self, courier: Courier, setup: Json) -> None:
        self._courier = courier
        self._id = 0
        self._cell: int | None = None
        self._outputs = [Output(name, self._print) for name in ("stdout", "stderr")]
        sys.stdout, sys.stderr = self._outputs
        os.register_at_fork(after_in_child=_use_own_streams)
        self._world = World(courier, bytes.fromhex(setup["key"]))
        self._runs = Runs(self._world, courier)
        world = self._world
        self._variables = Variables(
            rank=world.rank, world_size=world.size, device=world.device, mesh=None, runs=self._runs.shown
        )
        variables = self._variables.names
        self._cells = CellLedger(world.rank, world.size, world.device, variables, world.label, world.calls.run_functional)
        self._variables.bind("report", self._cells.report)
        watcher = Watcher(world)
        courier.situation = lambda: watcher.look(courier.since, courier.is_busy, self._cell, "")
        courier.abort_groups = self._abort
        courier.link.send({"type": "ready", "report": self._report(setup)})

    def run(self) -> None:
        """Performs work until the launcher ends the rank."""
        while (work := self._courier.next_work()) is not None:
            number, order, blob = work
            self._id = number
            outcome = self._outcome(order, blob)
            for output in self._outputs:
                output.flush()
            # The bytes of a value follow the message.
            value = outcome.get("value")
            if isinstance(value, bytes):
                self._courier.link.send({"type": "ended", "id": number, "outcome": {"ok": True, "isCoded": True}}, value)
            else:
                self._courier.link.send({"type": "ended", "id": number, "outcome": outcome})
        end_process(0)

    def _outcome(self, order: Json, blob: bytes) -> Json:
        self._cell = order.get("cell")
        file = None if order["kind"] != "python" else f"In[{self._cell}]" if self._cell is not None else "cell"
        try:
            outcome, stopped = self._attempt(order, blob, file)
        except KeyboardInterrupt as error:  # the interrupt came after the work had ended
            stopped = self._courier.ended()
            outcome = {"ok": False, "error": rank_error(error)}
        self._cell = None
        self._end_cell(outcome["ok"] and stopped is None)
        self._runs.ended(outcome["ok"])
        return outcome if stopped is None or outcome["ok"] else {"ok": False, "error": rank_error(stopped)}

    def _attempt(self, order: Json, blob: bytes, file: str | None) -> tuple[Json, ShardlabError | None]:
        """Performs work; returns its outcome, and the error that stopped it. After `ended`, the work cannot be interrupted."""
        try:
            self._courier.begins()
            value = self._perform(order, blob, file)
            stopped = self._courier.ended()
            return {"ok": True, "value": value}, stopped
        except BaseException as error:
            # An interrupt also ends the code of an exception's class, which makes its text.
            outcome = {"ok": False, "error": rank_error(error, file)}
            if is_lost(error):
                self._courier.await_reason()
            stopped = self._courier.ended()
            with contextlib.suppress(Exception):
                traceback.clear_frames(error.__traceback__)
            return outcome, stopped

    def _perform(self, order: Json, blob: bytes, file: str | None) -> Any:
        match order["kind"]:
            case "python":
                self._variables.put(decode(blob) if blob else {})
                with self._courier.unbroken():
                    self._begin_cell()
                value = self._variables.run(order["source"], file or "cell")
                self._cells.returned(value)
                if self._cell is None:
                    return value_or_text(value)
                if value is not None:
                    self._show({"kind": "result", "bundle": {"text/plain": cut(repr(value))}})
                return None
            case "put":
                return self._variables.put(decode(blob))
            case "get":
                return self._variables.get(order["name"], self._world.rank)
            case "group":
                return self._world.declare(order["group"])
            case "recover":
                return self._runs.recover()
            case _:
                return self._runs.perform(self._id, order)

    def _abort(self) -> None:
        groups = self._runs.active_groups()
        self._world.abort(self._world.groups_of_cells() if groups is None else groups)

    def _begin_cell(self) -> None:
        try:
            self._cells.begin(self._send_step, self._runs.ledgers())
        except Exception:
            self._cells.close()
            _warn_of_ledger()

    def _end_cell(self, is_ok: bool) -> None:
        """Ends the recording of a cell. An error of the ledger must not fail the cell, whose work is done."""
        try:
            self._cells.end(is_ok)
        except Exception:
            _warn_of_ledger()

    def _send_step(self, step: Json) -> None:
        self._courier.link.send({"type": "cellStep", "id": self._id, "step": step})

    def _print(self, name: str, text: str) -> None:
        self._show({"kind": "stream", "name": name, "text": text})

    def _show(self, output: Json) -> None:
        for stream in self._outputs if output["kind"] != "stream" else ():
            stream.flush()
        self._courier.link.send({"type": "output", "id": self._id, "output": output})

    def _report(self, setup: Json) -> Json:
        device = self._world.device
        backends: Any = torch.backends
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return {
            "pid": os.getpid(),
            "rssBytes": rss,
            "engine": f"torch {torch.__version__.split('+')[0]}",
            "blas": "mkl" if backends.mkl.is_available() else "openblas",
            "transport": self._world.backend,
            "device": "cpu" if device.type == "cpu" else torch.cuda.get_device_name(device),
            "readyMs": 1e3 * (time.monotonic() - float(setup["startedSeconds"])),
        }


def _warn_of_ledger() -> None:
    print(f"warning: the ledger of this cell failed, so figures lack the cell:\n{traceback.format_exc()}", file=sys.stderr)


def _use_own_streams() -> None:
    """Lets a forked process write to the streams of its own, because only the rank has a link to the launcher."""
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
