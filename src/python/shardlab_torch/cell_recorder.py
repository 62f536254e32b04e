"""The record of a cell's steps on one rank: memory, collectives and spans, cut where a step ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Any

import torch
import torch.distributed as dist

from .cell_memory import CellMemory, MemoryMark
from .cell_models import CellModels
from .collective_call import CollectiveCall
from .comm_ledger import Collective, CommLedger, collectives_json
from .memory_ledger import TrackedMemory
from .memory_record import memory_record
from .model_states import State
from .scene import Scene
from .span import Span
from .variables import number
from .work_watcher import WorkWatcher


# A step stores at most this number of collectives and of spans, as in src/ledger/step-events.ts.
MOST_COLLECTIVES = 20_000
MOST_SPANS = 20_000


@dataclass(frozen=True)
class Moment:
    """A moment of the open step at which the step may end."""

    at: float
    cpu: float
    memory: MemoryMark
    num_collectives: int
    num_spans: int


@dataclass(frozen=True)
class EndedStep:
    """A step that has ended, and its events."""

    number: int
    start: tuple[float, float]
    end: tuple[float, float]
    memory: TrackedMemory
    collectives: list[Collective]
    spans: list[Span]
    num_dropped: int
    """The number of collectives that were not stored."""

    @property
    def seconds(self) -> float:
        return self.end[0] - self.start[0]

    @property
    def is_minor(self) -> bool:
        """Whether the step only made temporary tensors: it neither communicated nor ran a model."""
        if self.collectives or self.spans:
            return False
        return all(owner.cause == 'temp' for _, owner, _ in self.memory.changes)


class CellRecorder:
    """Records the open step of a cell."""

    def __init__(
        self, rank: int, world: int, device: torch.device, models: CellModels, group_name_of: Callable[[dist.ProcessGroup], str]
    ) -> None:
        self._rank = rank
        self._world = world
        self._device = device
        self._models = models
        self._group_name_of = group_name_of
        self.scene = Scene()
        self.memory = CellMemory(self.scene, models, device)
        self.comm = CommLedger(self.scene, self._default_cause, None, MOST_COLLECTIVES)
        self._spans: list[Span] = []
        self._start = (0.0, 0.0)
        self._number = 1

    def open(self, elsewhere: Iterable[State], after_others: bool) -> None:
        """Begins a cell's first step, as `CellMemory.open`."""
        self.scene.clear()
        watcher = None if self._device.type == 'cpu' else WorkWatcher()
        self.comm = CommLedger(self.scene, self._default_cause, watcher, MOST_COLLECTIVES)
        self._spans = []
        self._number = 1
        self.memory.open(elsewhere, after_others)
        self._start = (monotonic(), time.thread_time())

    def span(self, name: str, module: str, start: float, end: float, pipeline: dict[str, Any] | None = None) -> None:
        """Adds a span of the main thread's work; `pipeline` says which part of a pipeline's schedule it is."""
        if len(self._spans) < MOST_SPANS:
            self._spans.append(Span(name, module, start, end, pipeline))
        self.comm.beat(end)

    @property
    def num_spans(self) -> int:
        """The number of spans of the open step."""
        return len(self._spans)

    @property
    def has_events(self) -> bool:
        """Whether the open step has any events."""
        return self.memory.mark().num_changes + len(self.comm.collectives) + len(self._spans) > 0

    def moment(self) -> Moment:
        """Returns the present moment."""
        at, cpu = monotonic(), time.thread_time()
        self.memory.settle()
        return Moment(at, cpu, self.memory.mark(), len(self.comm.collectives), len(self._spans))

    def cut(self, end: Moment, unseen_bytes: int | None = None) -> EndedStep:
        """Ends the step at a moment; later events begin the next step."""
        memory = self.memory.cut(end.memory, unseen_bytes)
        spans, self._spans = self._spans[: end.num_spans], self._spans[end.num_spans :]
        start, self._start = self._start, (end.at, end.cpu)
        collectives = self.comm.cut(end.num_collectives, end.at)
        step = EndedStep(self._number, start, (end.at, end.cpu), memory, collectives, spans, self.comm.take_dropped())
        self._number += 1
        self._models.step_ended()
        return step

    def record(self, step: EndedStep, loss: float | None, has_curve: bool) -> dict[str, Any]:
        """Returns the step's record, as `StepRecord` of src/ledger/record.ts; without a curve, its memory has only the totals."""
        moments = (step.start[0], step.end[0])
        return {
            'step': step.number,
            'rank': self._rank,
            'world': self._world,
            'start': moments[0],
            'end': moments[1],
            'startCpu': step.start[1],
            'endCpu': step.end[1],
            'loss': loss if loss is None else number(loss),
            'tokens': None,
            'memory': memory_record(step.memory, step.spans, step.spans, moments, self._device, has_curve),
            'collectives': collectives_json(step.collectives, self._group_name_of),
            'spans': [span.as_json() for span in step.spans],
        }

    def _default_cause(self, call: CollectiveCall) -> str:
        """Returns the cause of a collective for which no strategy's code gives a cause."""
        scene = self.scene
        if call.op == 'barrier':
            return 'control'
        if scene.within('optimizer'):
            return 'norm' if call.op == 'allReduce' else 'param'
        if call.is_functional:
            return 'activation'
        if scene.in_backward and self._models.has_ddp:
            return 'grad'
        if self._models.has_ddp and scene.within('forward'):
            return 'control'
        return 'user'
