"""The ledger of one rank's run: records of memory, collectives and spans, only for steps that are tracked or profiled."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from time import monotonic
from typing import Any, Callable, ContextManager, Iterator, Sequence

import torch
import torch.distributed as dist
from torch import nn

from .collective_call import CollectiveCall
from .comm_ledger import CommLedger, collectives_json
from .memory_ledger import MemoryLedger, TrackedMemory
from .memory_record import memory_record
from .model_states import ModelStates, State, inner_model
from .op_mode import OpMode, OpObserver, RunFunctional
from .pipeline_spans import pipeline_spans
from .scene import Frame, Scene
from .span import Span
from .strategy_frames import strategy_frames
from .unit_marks import UnitMarks
from .variables import number
from .work_watcher import WorkWatcher

_NOTHING: ContextManager[None] = nullcontext()


@dataclass(frozen=True)
class Profiled:
    """The collectives and spans of a profiled step, and its CPU times."""

    comm: CommLedger
    spans: list[Span]
    start_cpu: float
    end_cpu: float


class Ledger:
    """
    Records steps of one rank. Times are of the machine's monotonic clock, which Node's `now()` reads too.

    [Note: recorded steps] `with ledger.track():` follows every storage of a step; `with ledger.profile():` sees its
    collectives. Both put hooks, a dispatch mode and replaced methods in place and remove them at the end, so other steps
    run as if there were no ledger. A profiled step's record has the memory of the newest tracked step.
    """

    def __init__(
        self,
        rank: int,
        world: int,
        device: torch.device,
        group_name_of: Callable[[dist.ProcessGroup], str],
        run_functional: RunFunctional | None = None,
    ) -> None:
        self._rank = rank
        self._world = world
        self._device = torch.device(device)
        self._group_name_of = group_name_of
        self._run_functional = run_functional
        self._scene = Scene()
        self._states: ModelStates | None = None
        self._unit_names: Sequence[str] = ()
        self._spans: list[Span] = []
        self._observers: list[OpObserver] = []
        self._marks: UnitMarks | None = None
        self._memory: MemoryLedger | None = None
        self._comm: CommLedger | None = None
        self._tracked: tuple[TrackedMemory, list[Span]] | None = None
        self._profiled: Profiled | None = None

    def attach(
        self, model: Any, optimizer: Any, strategy: str, unit_names: Sequence[str], beside: nn.Module | None = None
    ) -> None:
        """
        Names the run whose steps are recorded. The model must already be wrapped; units have their full names in the model.
        `beside` has frozen modules that run beside the model.
        """
        self._states = ModelStates(model, optimizer, beside)
        self._unit_names = list(unit_names)
        self._tracked = None
        self._profiled = None

    @contextmanager
    def track(self) -> Iterator[None]:
        """Tracks the memory of the step within the context. Tracking makes the step slower."""
        self._memory = MemoryLedger(self._scene, self._attached(), self._device)
        self._memory.begin()
        try:
            with self._observed(self._memory), self._memory.track():
                yield
            self._tracked = (self._memory.tracked(), self._spans)
        finally:
            self._memory = None

    @contextmanager
    def profile(self) -> Iterator[None]:
        """Records the collectives and spans of the step within the context."""
        watcher = None if self._device.type == 'cpu' else WorkWatcher()
        self._comm = CommLedger(self._scene, self._default_cause, watcher)
        self._comm.bucket_modules = self._bucket_modules()
        cpu = time.thread_time()
        try:
            with self._observed(self._comm), self._comm.watch():
                yield
            self._profiled = Profiled(self._comm, self._spans, cpu, time.thread_time())
        finally:
            self._comm = None

    def span(self, name: str, module: str = '') -> ContextManager[None]:
        """Opens a span of the main thread's work. Outside of recorded steps, this method does nothing."""
        return self._span(name, module) if self._observers else _NOTHING

    def purpose(self, cause: str) -> ContextManager[None]:
        """Gives a cause to the collectives within the context. Outside of recorded steps, this method does nothing."""
        return self._scene.frame(Frame(comm=cause)) if self._observers else _NOTHING

    def record(
        self, step: int, start: float, end: float, loss: float | None, tokens: int | None
    ) -> dict[str, Any] | None:
        """
        Returns the record of the step that has just ended, as `StepRecord` of src/ledger/record.ts, or None if it was not
        profiled. Raises RuntimeError if no step of the run was tracked before.
        """
        profiled, self._profiled = self._profiled, None
        if profiled is None:
            return None
        if self._tracked is None:
            raise RuntimeError('no step of this run was tracked before its profiled step; call track() in its first step')
        tracked, spans = self._tracked
        return {
            'step': step,
            'rank': self._rank,
            'world': self._world,
            'start': start,
            'end': end,
            'startCpu': profiled.start_cpu,
            'endCpu': profiled.end_cpu,
            'loss': loss if loss is None else number(loss),
            'tokens': tokens,
            'memory': memory_record(tracked, spans, profiled.spans, (start, end), self._device),
            'collectives': collectives_json(profiled.comm.collectives, self._group_name_of),
            'spans': [span.as_json() for span in profiled.spans],
        }

    @property
    def states(self) -> ModelStates:
        """The states of the attached run. Raises RuntimeError before `attach`."""
        return self._attached()

    def _attached(self) -> ModelStates:
        if self._states is None:
            raise RuntimeError('the ledger has no run; call attach(model, optimizer, strategy, unit_names) first')
        return self._states

    @contextmanager
    def _observed(self, observer: OpObserver) -> Iterator[None]:
        """Adds an observer of the step. The first one puts hooks and the dispatch mode in place, the last one removes them."""
        with ExitStack() as stack:
            if not self._observers:
                self._install(stack)
            self._observers.append(observer)
            stack.callback(self._observers.remove, observer)
            yield

    def _install(self, stack: ExitStack) -> None:
        states = self._attached()
        self._spans = []
        stack.enter_context(strategy_frames(self._scene, states, self._claim))
        stack.enter_context(pipeline_spans(self._span))
        self._marks = UnitMarks(self._scene, self._report, self._claim_inputs)
        self._marks.place(inner_model(states.model), self._unit_names)
        stack.callback(self._marks.remove)
        stack.enter_context(OpMode(self._observers, self._run_functional))

    def _claim(self, states: Iterator[State]) -> None:
        if self._memory is not None:
            self._memory.claim(states)

    def _claim_inputs(self, inputs: Any) -> None:
        if self._memory is not None:
            self._memory.claim_inputs(inputs)

    @contextmanager
    def _span(self, name: str, module: str, pipeline: dict[str, Any] | None = None) -> Iterator[None]:
        if name == 'optimizer' and self._memory is not None:
            self._memory.claim_states()
        begun = monotonic()
        with self._scene.span(name), self._scene.frame(Frame(comm='loss' if name == 'loss' else None)):
            try:
                yield
            finally:
                if name == 'backward' and self._marks is not None:
                    # The first unit's input may have no gradient, so no hook ends this unit's backward.
                    self._marks.end_backward()
                ended = monotonic()
                self._spans.append(Span(name, module, begun, ended, pipeline))
                if self._comm is not None:
                    self._comm.beat(ended)

    def _report(self, name: str, module: str, start: float, end: float) -> None:
        self._spans.append(Span(name, module, start, end))

    def _default_cause(self, call: CollectiveCall) -> str:
        """Returns the cause of a collective for which neither a strategy's code nor the caller gives a cause."""
        scene = self._scene
        is_ddp = isinstance(self._attached().model, nn.parallel.DistributedDataParallel)
        if call.op in ('send', 'recv'):
            return 'activation'
        if call.op == 'barrier' or call.dtype == 'int32':
            return 'control'  # such as the number of rows for each expert
        if call.op == 'allToAll':
            return 'activation'  # attention heads, or rows for experts
        if hasattr(self._attached().optimizer, 'averaged_gradients') and not scene.within('loss'):
            # DeepSpeed reduces gradients within backward, and gathers parameters wherever it needs them.
            reduces = call.op in ('allReduce', 'reduceScatter')
            return 'param' if not reduces else 'norm' if scene.within('optimizer') else 'grad'
        if scene.within('optimizer'):
            return 'norm' if call.op == 'allReduce' else 'param'
        if scene.in_backward:
            return 'grad' if is_ddp and not call.is_functional else 'activation'
        if call.is_functional:
            return 'activation'
        return 'control' if is_ddp and scene.within('forward') else 'user'

    def _bucket_modules(self) -> list[str]:
        """Returns the module of each DDP bucket's first parameter, in the order in which buckets are reduced."""
        states = self._attached()
        if not isinstance(states.model, nn.parallel.DistributedDataParallel):
            return []
        states.model.reducer._rebuild_buckets()  # the second forward would begin with this call
        owners = states.owners()
        buckets = states.model.reducer._get_zeros_like_grad_buckets()
        return [owners.get(id(bucket.parameters()[0]), '') for bucket in buckets]
