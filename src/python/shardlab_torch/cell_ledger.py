"""The ledger of Python cells: what a loop that the user wrote does is recorded step by step, as a run's steps are."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FullyShardedDataParallel, _init_utils
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.pipelining import schedules
from torch.nn.modules import module as modules
from torch.nn.parallel import DistributedDataParallel, distributed
from torch.nn.utils import clip_grad
from torch.optim import optimizer as optimizers
from torch.utils.weak import WeakTensorKeyDictionary

from .cell_marks import CellMarks
from .cell_models import CellModels
from .cell_recorder import CellRecorder
from .cell_steps import CellSteps, loss_of, scalar_of
from .errors import Json
from .ledger import Ledger
from .memory_ledger import resizes_reported
from .model_states import State
from .op_mode import OpMode, OpObserver, RunFunctional
from .pipeline_spans import pipeline_spans
from .scene import Frame
from .strategy_frames import strategy_frames

# The functions in which the norm of gradients is computed, by the places in which torch looks them up.
_NORMS: tuple[tuple[Any, str], ...] = (
    (clip_grad, "_get_total_norm"),
    (clip_grad, "_clip_grads_with_norm_"),
    (torch.nn.utils, "get_total_norm"),
    (torch.nn.utils, "clip_grads_with_norm_"),
)

COMPILED = (
    "note: this cell runs code of torch.compile. The ledger sees its inputs, outputs and the collectives around it, but not the "
    "tensors and collectives within it; to see these, run the loop once without torch.compile. This note appears once"
)


class CellMode(OpMode):  # type: ignore[no-untyped-call]
    """The mode of cells. torch.compile compiles code as if the mode did not exist."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True


class CellLedger:
    """
    Records the cells of a rank.

    [Note: recorded cells] While a cell runs, torch's hooks for all modules and optimizers, some replaced functions and a dispatch
    mode report what the main thread does; other threads, and processes that a cell forks (workers of a DataLoader), are
    not recorded. After a cell, nothing of this is left in place, so other work runs as if there were no ledger. The ledger holds
    no tensor, model or optimizer: it only has weak references and numbers.
    """

    def __init__(
        self,
        rank: int,
        world: int,
        device: torch.device,
        variables: Mapping[str, Any],
        name_of: Callable[[dist.ProcessGroup], str],
        run_functional: RunFunctional,
    ) -> None:
        self._models = CellModels(variables)
        self._recorder = CellRecorder(rank, world, device, self._models, name_of)
        self._steps = CellSteps(self._recorder, self._models)
        self._marks = CellMarks(
            self._recorder.scene, self._models, self._recorder.span, self._pass_begins, self._set_in_model
        )
        self._device = device
        self._run_functional = run_functional
        self._main = threading.get_ident()
        self._installed: ExitStack | None = None
        self._observers: list[OpObserver] = []
        self._value: float | None = None
        # The losses that a scaler multiplied, by the products.
        self._unscaled = WeakTensorKeyDictionary()
        # The optimizers whose step() runs, with the time at which it began.
        self._stepping: list[tuple[int, float]] = []
        self._has_pass = False
        self._has_updated = False
        # The number of pieces of code that torch.compile had compiled when the cell began.
        self._num_compiled = 0
        self._has_noted = False
        self._after_others = True
        os.register_at_fork(after_in_child=self._forget_observers)

    def begin(self, send: Callable[[Json], None], runs: Iterable[Ledger]) -> None:
        """Begins a cell, whose steps `send` gets; `runs` are the ledgers of runs, whose tensors do not belong to cells."""
        self.close()
        self._marks.clear()
        self._stepping.clear()
        self._has_pass = False
        self._num_compiled = _num_compiled()
        self._models.drop_garbage()
        self._recorder.open((state for run in runs for state in run.states), self._after_others)
        self._after_others = False
        self._steps.begin(send)
        self._installed = stack = ExitStack()
        self._install(stack)

    def returned(self, value: Any) -> None:
        """Notes the value of the cell's last expression, which may be its loss."""
        self._value = loss_of(value)

    def report(self, loss: Any) -> None:
        """Sets the loss of the current step, or of the step that has just ended; cells call this method as `report(loss)`."""
        self._steps.report(loss)

    def end(self, is_ok: bool) -> None:
        """Ends the cell, if one was begun, and sends its last step."""
        if self._installed is None:
            self._after_others = True
            return
        self.close()
        value, self._value = self._value, None
        self._models.settle()
        unseen = self._recorder.memory.close()
        if is_ok:
            self._steps.end(value, unseen)
        else:
            self._steps.drop()
        self._note_compiled()

    def close(self) -> None:
        """Removes all hooks."""
        stack, self._installed = self._installed, None
        self._observers.clear()
        if stack is not None:
            stack.close()

    def _install(self, stack: ExitStack) -> None:
        recorder, scene = self._recorder, self._recorder.scene
        stack.enter_context(recorder.comm.watch())
        stack.enter_context(strategy_frames(scene, self._models, recorder.memory.claim))
        stack.enter_context(pipeline_spans(self._pipeline_span))
        stack.enter_context(resizes_reported(recorder.memory.storages))
        wrap(stack, torch.autograd, "_engine_run_backward", self._run_backward)
        for place, name in _NORMS:
            wrap(stack, place, name, self._compute_norm)
        wrap(stack, FullyShardedDataParallel, "clip_grad_norm_", self._compute_norm)
        for kind in (GradScaler, ShardedGradScaler):
            wrap(stack, kind, "scale", self._scale)
        wrap(stack, GradScaler, "step", self._step_of_scaler)
        wrap(stack, nn.Module, "__init__", self._make)
        wrap(stack, nn.Module, "__setstate__", self._make)
        wrap(stack, nn.Module, "zero_grad", self._zero_gradients)
        wrap(stack, torch.optim.Optimizer, "__init__", self._make_optimizer)
        wrap(stack, DistributedDataParallel, "_ddp_init_helper", self._framed(Frame(memory="comm")))
        wrap(stack, DeviceMesh, "__init__", self._make_mesh)
        wrap(stack, schedules, "_batch_p2p", self._framed(Frame(comm="activation")))
        wrap(stack, distributed, "_sync_module_states", self._framed(Frame(comm="param")))
        wrap(stack, _init_utils, "_sync_module_params_and_buffers", self._framed(Frame(comm="param")))
        for handle in (
            modules.register_module_forward_pre_hook(self._before_forward),
            modules.register_module_forward_hook(self._after_forward, always_call=True),
            optimizers.register_optimizer_step_pre_hook(self._before_step),
            optimizers.register_optimizer_step_post_hook(self._after_step),
        ):
            stack.callback(handle.remove)
        self._observers += [recorder.memory, recorder.comm, self._steps]
        stack.enter_context(CellMode(self._observers, self._run_functional))

    @property
    def _is_recorded(self) -> bool:
        """Whether the running code belongs to the cell: it is on the main thread, or within a backward."""
        return bool(self._observers) and (threading.get_ident() == self._main or self._recorder.scene.in_backward)

    def _before_forward(self, module: nn.Module, args: Any) -> None:
        if not torch.compiler.is_compiling() and self._is_recorded:
            self._marks.enter(module, args)

    def _after_forward(self, module: nn.Module, args: Any, output: Any) -> None:
        if not torch.compiler.is_compiling() and self._is_recorded:
            self._marks.leave(module, args, output)

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if not self._is_recorded:
            return
        self._models.optimizes(optimizer)
        ids = [one for one, _ in self._stepping]
        if id(optimizer) in ids:
            # An earlier step() of this optimizer failed.
            self._leave_step(ids.index(id(optimizer)))
        self._stepping.append((id(optimizer), monotonic()))
        self._recorder.scene.spans.append("optimizer")

    def _after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        ids = [one for one, _ in self._stepping]
        if not self._is_recorded or id(optimizer) not in ids:
            return
        index = ids.index(id(optimizer))
        begun = self._stepping[index][1]
        self._leave_step(index)
        if self._stepping:
            return
        self._recorder.memory.claim_states()
        self._recorder.span("optimizer", "", begun, monotonic())
        self._updated(optimizer)

    def _updated(self, optimizer: torch.optim.Optimizer) -> None:
        self._has_pass = False
        self._has_updated = True
        rate = optimizer.param_groups[0]["lr"] if optimizer.param_groups else None
        self._steps.updated(scalar_of(rate))

    def _scale(self, original: Callable[..., Any], scaler: GradScaler, outputs: Any) -> Any:
        product = original(scaler, outputs)
        # A scaler that is not enabled returns its argument.
        loss = scalar_of(outputs) if self._is_recorded and product is not outputs else None
        if loss is not None:
            self._unscaled[product] = loss
        return product

    def _loss_of(self, output: torch.Tensor) -> float | None:
        unscaled: float | None = self._unscaled.get(output)  # type: ignore[no-untyped-call]
        return scalar_of(output) if unscaled is None else unscaled

    def _step_of_scaler(
        self, original: Callable[..., Any], scaler: GradScaler, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any
    ) -> Any:
        self._has_updated = False
        result = original(scaler, optimizer, *args, **kwargs)
        if self._is_recorded and not self._has_updated:
            # Gradients overflowed, so the scaler has left out the update, which nevertheless ends the step.
            self._updated(optimizer)
        return result

    def _leave_step(self, index: int) -> None:
        for _ in self._stepping[index:]:
            self._recorder.scene.spans.remove("optimizer")
        del self._stepping[index:]

    def _make(self, original: Callable[..., Any], module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if self._is_recorded:
            self._models.made(module)
        return original(module, *args, **kwargs)

    def _make_optimizer(self, original: Callable[..., Any], optimizer: Any, *args: Any, **kwargs: Any) -> None:
        original(optimizer, *args, **kwargs)
        if self._is_recorded:
            self._models.optimizes(optimizer)

    def _zero_gradients(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        if self._is_recorded:
            self._recorder.memory.claim_states()
            self._steps.zeroed()
        original(*args, **kwargs)

    def _make_mesh(self, original: Callable[..., Any], mesh: DeviceMesh, *args: Any, **kwargs: Any) -> None:
        with self._recorder.scene.frame(Frame(memory="temp")):
            original(mesh, *args, **kwargs)
        # The tables of ranks are no batch, although they are made outside of a model.
        self._recorder.memory.claim(State(table, "temp", "") for table in vars(mesh).values())

    def _framed(self, frame: Frame) -> Callable[..., Any]:
        def run(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if not self._is_recorded:
                return original(*args, **kwargs)
            with self._recorder.scene.frame(frame):
                return original(*args, **kwargs)

        return run

    def _pass_begins(self) -> None:
        self._has_pass = True
        self._steps.pass_begins()

    def _run_backward(self, original: Callable[..., Any], outputs: Any, *args: Any, **kwargs: Any) -> Any:
        recorder, scene = self._recorder, self._recorder.scene
        if not self._is_recorded or scene.in_backward:
            return original(outputs, *args, **kwargs)
        if not self._has_pass:
            self._pass_begins()
        is_loss = bool(kwargs.get("accumulate_grad")) and len(outputs) == 1
        loss = self._loss_of(outputs[0]) if is_loss else None
        if loss is not None:
            self._steps.passed(loss)
        begun = monotonic()
        try:
            with scene.span("backward"):
                return original(outputs, *args, **kwargs)
        finally:
            self._marks.end_backward()
            recorder.span("backward", "", begun, monotonic())
            recorder.memory.claim_states()

    def _compute_norm(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not self._is_recorded:
            return original(*args, **kwargs)
        begun = monotonic()
        with self._recorder.scene.frame(Frame(comm="norm")):
            result = original(*args, **kwargs)
        self._recorder.span("optimizer", "", begun, monotonic())
        norm = scalar_of(result)
        if norm is not None:
            self._steps.clipped(norm)
        return result

    @contextmanager
    def _pipeline_span(self, name: str, _: str, pipeline: dict[str, Any]) -> Iterator[None]:
        begun = monotonic()
        with self._recorder.scene.span(name):
            yield
        self._recorder.span(name, "", begun, monotonic(), pipeline)

    def _set_in_model(self, in_model: bool) -> None:
        self._recorder.memory.in_model = in_model and torch.is_grad_enabled()

    def _forget_observers(self) -> None:
        self._observers.clear()

    def _note_compiled(self) -> None:
        if not self._has_noted and _num_compiled() > self._num_compiled:
            self._has_noted = True
            print(COMPILED, file=sys.stderr)


def _num_compiled() -> int:
    dynamo = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else int(dynamo.counters["frames"]["ok"])


def wrap(stack: ExitStack, place: Any, name: str, replacement: Callable[..., Any]) -> None:
    """Replaces a function by one that gets the function as its first argument, until the stack is closed."""
    original = getattr(place, name, None)
    if original is None:
        return

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return replacement(original, *args, **kwargs)

    setattr(place, name, wrapped)
    stack.callback(setattr, place, name, original)
