"""The courier thread: it reads the control link, whatever the main thread does."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from .errors import Json, ShardlabError
from .link import Link, LinkError

# The main thread gets this much time to end after an interrupt; after that, its collectives are aborted.
ABORT_SECONDS = 0.2
# After an interrupt, the work gets this much time in which `finally` blocks are not interrupted.
CLEANUP_SECONDS = 0.1
# After this much time, the main thread is interrupted again.
AGAIN_SECONDS = 0.5
# After the order to shut down, a busy main thread gets this much time to end.
SHUTDOWN_SECONDS = 1.0
# After a rank has lost a peer, the launcher gets this much time to send the reason; torchrun's agent reports an end within 4 s.
REASON_SECONDS = 6.0

Work = tuple[int, Json, bytes]

# Stands for an answer that has not come.
_NONE_YET = object()


class Courier(threading.Thread):
    """
    Forwards work to the main thread, answers status requests, and interrupts the main thread. If the launcher is gone, the rank ends,
    and `folder`, the job's folder, is removed.
    """

    def __init__(self, link: Link, folder: str | None = None) -> None:
        super().__init__(name="courier", daemon=True)
        self.link = link
        self._folder = folder
        # The worker sets these fields when torch is imported.
        self.situation: Callable[[], Json] = lambda: {"state": "running", "hasBackground": False, "lastCalled": {}}
        self.abort_groups: Callable[[], None] = lambda: None
        self._main = threading.main_thread()
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._granted: Json = {"granted": 0, "isFinal": True}
        self._replies: dict[int, tuple[Json, bytes]] = {}
        self._next_request = 0
        self._questions = itertools.count(1)
        self._answers: dict[int, Any] = {}
        self._running: int | None = None
        self._reason: Json | None = None
        # Above 0, an interrupt is raised later. Between two pieces of work it is 1.
        self._shields = 1
        self._calm_until = 0.0
        self.since = time.monotonic()
        signal.signal(signal.SIGINT, self._on_signal)

    # The methods below run on the main thread.

    def next_work(self) -> Work | None:
        """Waits for work; None: the rank must end."""
        work = self._work.get()
        with self._changed:
            self._running = None if work is None else work[0]
            self.since = time.monotonic()
            if work is not None and "grant" in work[1]:
                self._granted = work[1]["grant"]
        return work

    def begins(self) -> None:
        """Notes that the work begins, whose code catches interrupts. Raises KeyboardInterrupt if the work must not begin."""
        self._shields = 0
        self._calm_until = 0.0
        self._raise_held()

    @contextlib.contextmanager
    def unbroken(self) -> Iterator[None]:
        """In this context, an interrupt does not stop the main thread; it is raised at the end of the context."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
        self._raise_held()

    def _raise_held(self) -> None:
        now = time.monotonic()
        if self._shields == 0 and self._reason is not None and now >= self._calm_until:
            self._calm_until = now + CLEANUP_SECONDS
            raise KeyboardInterrupt

    def ended(self) -> ShardlabError | None:
        """Notes that the work has ended. Returns the error that says why the work was stopped; None: nothing stopped it."""
        # From here on, no interrupt is raised, because an interrupt between a lock and its release would keep the lock.
        self._running = None
        self._shields = 1
        with self._changed:
            self.since = time.monotonic()
            reason, self._reason = self._reason, None
        return None if reason is None else ShardlabError(str(reason["code"]), str(reason["text"]))

    def await_reason(self) -> None:
        """Waits until the launcher says why the running work must end, but only for a limited time."""
        with contextlib.suppress(KeyboardInterrupt), self._changed:
            self._changed.wait_for(lambda: self._reason is not None, REASON_SECONDS)

    @property
    def is_busy(self) -> bool:
        """Whether the main thread runs work."""
        return self._running is not None

    def may_step(self, index: int) -> bool:
        """Whether the running call may run step `index`; waits until the launcher has decided."""
        with self._changed:
            while index >= self._granted["granted"] and not self._granted["isFinal"]:
                self._changed.wait()
            return bool(index < self._granted["granted"])

    def is_last(self, index: int) -> bool:
        """Whether step `index` is known to be the last of the running call."""
        with self._changed:
            return bool(self._granted["isFinal"] and index + 1 >= self._granted["granted"])

    def request(self, message: Json) -> int:
        """Asks the launcher for batches; returns the number of the request."""
        self._next_request += 1
        self.link.send({"type": "need", "id": self._next_request, **message})
        return self._next_request

    def reply(self, request: int) -> tuple[Json, bytes]:
        """Waits for the reply to a request."""
        with self._changed:
            while request not in self._replies:
                self._changed.wait()
            return self._replies.pop(request)

    # Any thread may call this method.

    def ask(self, message: Json, seconds: float) -> Any:
        """Asks the launcher's store, and waits for the answer. Raises TimeoutError."""
        question = next(self._questions)
        with self._changed:
            self._answers[question] = _NONE_YET
        try:
            self.link.send({"type": "store", "id": question, **message})
            with self._changed:
                if not self._changed.wait_for(lambda: self._answers[question] is not _NONE_YET, seconds):
                    raise TimeoutError
                return self._answers[question]
        finally:
            self._answers.pop(question, None)

    # The methods below run on the courier thread.

    def run(self) -> None:
        try:
            while (message := self.link.receive()) is not None:
                self._handle(*message)
        except (OSError, LinkError, ValueError, KeyError):
            pass  # without its launcher, the rank ends
        finally:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
            end_process(1)

    def _handle(self, message: Json, blob: bytes) -> None:
        match message["type"]:
            case "work":
                self._work.put((int(message["id"]), message["work"], blob))
            case "status":
                self.link.send({"type": "status", "id": message["id"], "status": self.situation()})
            case "interrupt":
                self._later(float(message["delayMs"]) / 1e3, {"code": "INTERRUPTED", "text": "the work was interrupted"})
            case "abort":
                self._later(0, message["reason"])
            case "alive":
                pass  # the arrival of the message is all that counts
            case "reset":
                with self._changed:
                    if self._running is None:
                        self._reason = None
            case "grant":
                with self._changed:
                    self._granted = message["grant"]
                    self._changed.notify_all()
            case "batches" | "noBatches":
                with self._changed:
                    self._replies[int(message["id"])] = (message, blob)
                    self._changed.notify_all()
            case "store":
                with self._changed:
                    if message["id"] in self._answers:
                        self._answers[message["id"]] = message["answer"]
                    self._changed.notify_all()
            case "shutdown":
                self._work.put(None)
                threading.Thread(target=self._end_busy, daemon=True).start()
            case other:
                raise LinkError(f"a message of unknown type {other}")

    def _later(self, seconds: float, reason: Json) -> None:
        number = self._running
        if number is not None:
            threading.Thread(target=self._stop, args=(number, seconds, reason), daemon=True).start()

    def _stop(self, number: int, seconds: float, reason: Json) -> None:
        """
        Interrupts work unless it ends by itself in time. If the main thread then still waits in a collective, its groups are
        aborted. They are not aborted at once: gloo loses a send whose connection ends while data flow, and such a collective would
        never end. Once all ranks are interrupted, no data flow.
        """
        if self._ends_within(number, seconds):
            return
        with self._changed:
            if self._running != number:
                return
            self._reason = self._reason or reason
            self._changed.notify_all()
        for attempt in range(20):
            if attempt > 0:
                self.abort_groups()
            self._signal(number)
            if self._ends_within(number, ABORT_SECONDS if attempt == 0 else AGAIN_SECONDS):
                return

    def _ends_within(self, number: int, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while self._running == number:
            if time.monotonic() >= end:
                return False
            time.sleep(min(0.01, seconds))
        return True

    def _signal(self, number: int) -> None:
        ident = self._main.ident
        if self._running == number and ident is not None:
            signal.pthread_kill(ident, signal.SIGINT)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Runs on the main thread, so the main thread's work cannot end meanwhile."""
        if self._running is not None:
            self._raise_held()

    def _end_busy(self) -> None:
        time.sleep(SHUTDOWN_SECONDS)
        end_process(0)


def end_process(status: int) -> Any:
    """Ends this process at once; if `status` is not 0, also the processes that it has started."""
    if os.name == "posix" and os.getpgid(0) == os.getpid():
        if status != 0:
            os.killpg(0, signal.SIGKILL)
    os._exit(status)
