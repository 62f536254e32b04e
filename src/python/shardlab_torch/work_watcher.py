"""Finds when collectives end on devices whose works report only whether they have ended."""

from __future__ import annotations

from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, Callable

POLL_SECONDS = 1e-4


class WorkWatcher:
    """A thread that asks pending works whether they have ended. Reported times are late by at most one poll interval."""

    def __init__(self) -> None:
        self._pending: list[tuple[Any, Callable[[float], None]]] = []
        self._lock = Lock()
        self._stopped = Event()
        self._thread = Thread(target=self._run, name='shardlab-works', daemon=True)
        self._thread.start()

    def watch(self, work: Any, ended: Callable[[float], None]) -> None:
        """Calls `ended` with the time at which the thread found that the work had ended."""
        with self._lock:
            self._pending.append((work, ended))

    def finish(self, timeout: float = 10.0) -> None:
        """Waits until all works have ended, for at most `timeout` seconds, and ends the thread."""
        until = monotonic() + timeout
        while monotonic() < until and self._pending:
            self._stopped.wait(POLL_SECONDS)
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(POLL_SECONDS):
            with self._lock:
                pending = list(self._pending)
            done = [item for item in pending if item[0].is_completed()]
            now = monotonic()
            for _, ended in done:
                ended(now)
            with self._lock:
                self._pending = [item for item in self._pending if item not in done]
