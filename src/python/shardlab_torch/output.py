"""Sends the text that a rank prints to the launcher."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

GATHER_SECONDS = 0.008
# Longer texts are sent in parts, because a message has a limited size.
MOST_CHARACTERS = 2**20


class Output(io.TextIOBase):
    """A stream that sends its texts as messages; texts that follow each other within 8 ms become one message."""

    def __init__(self, name: str, send: Callable[[str, str], None]) -> None:
        self._name = name
        self._send = send
        self._texts: list[str] = []
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        with self._lock:
            self._texts.append(text)
            if self._timer is None:
                self._timer = threading.Timer(GATHER_SECONDS, self.flush)
                self._timer.daemon = True
                self._timer.start()
        return len(text)

    def flush(self) -> None:
        with self._lock:
            text = "".join(self._texts)
            self._texts.clear()
            self._timer = None
            for start in range(0, len(text), MOST_CHARACTERS):
                self._send(self._name, text[start : start + MOST_CHARACTERS])
