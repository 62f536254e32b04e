"""The scene: the module and the cause for which the main thread works at this moment."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Iterator

import torch


@dataclass(frozen=True)
class Frame:
    """A part of a step whose collectives and allocations have a known module or cause; None means unknown."""

    module: str | None = None
    comm: str | None = None
    memory: str | None = None


class Scene:
    """Knows the unit and the spans in which the main thread is, and the frames that strategies and callers opened."""

    def __init__(self) -> None:
        self.unit = ''
        self.spans: list[str] = []
        self._frames: list[Frame] = []

    @contextmanager
    def frame(self, frame: Frame) -> Iterator[None]:
        """Opens a frame within the context. Of several open frames, the innermost one with a value decides."""
        self._frames.append(frame)
        try:
            yield
        finally:
            self._frames.pop()

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Notes that a span of this name is open within the context."""
        self.spans.append(name)
        try:
            yield
        finally:
            self.spans.pop()

    def clear(self) -> None:
        """Closes what code that was stopped has left open."""
        self.unit = ''
        self.spans.clear()
        self._frames.clear()

    @property
    def module(self) -> str:
        """The module for which the main thread works: the innermost frame's module, else the unit."""
        return next((f.module for f in reversed(self._frames) if f.module is not None), self.unit)

    @property
    def comm(self) -> str | None:
        """The cause of collectives; None: no open frame has one."""
        return next((f.comm for f in reversed(self._frames) if f.comm is not None), None)

    @property
    def memory(self) -> str | None:
        """The cause of allocations; None: no open frame has one."""
        return next((f.memory for f in reversed(self._frames) if f.memory is not None), None)

    @property
    def in_backward(self) -> bool:
        """Whether autograd runs a backward now."""
        return bool(torch._C._current_graph_task_id() >= 0)

    @property
    def in_recompute(self) -> bool:
        """Whether a forward runs again within backward: within backward, autograd records only then."""
        return self.in_backward and torch.is_grad_enabled()

    def within(self, span: str) -> bool:
        """Whether a span of this name is open."""
        return span in self.spans
