"""Divides the work of Python cells into steps, as src/launch/rank/cell-steps.ts does for cells of JavaScript."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from .cell_models import CellModels
from .cell_recorder import CellRecorder, EndedStep, Moment
from .errors import Json, ShardlabError
from .variables import number

# Records may take this share of the time; in cells with very short steps, only every second (fourth, …) step gets one.
MOST_TIME = 0.01
# The first steps of a cell all get records.
FIRST_STEPS = 16


@dataclass
class Notes:
    """The numbers that a rank has about a step in addition to the step's events."""

    reported: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    lr: float | None = None
    norm: float | None = None


class CellSteps:
    """
    Divides a cell into steps and sends them.

    [Note: steps of Python cells] A step ends when an optimizer's step() returns, or when a GradScaler leaves out the update. It is cut
    when the next pass begins, exactly as in [Note: steps of cells] of src/launch/rank/cell-steps.ts. A pass begins when a cell calls a model while gradients are on, or
    when it calls backward without such a call. If no optimizer exists, `report(loss)` ends a step, or else `model.zero_grad()`.
    """

    def __init__(self, recorder: CellRecorder, models: CellModels) -> None:
        self._recorder = recorder
        self._models = models
        self._send: Callable[[Json], None] | None = None
        # The moment at which the open step ends if another pass begins.
        self._mark: Moment | None = None
        # The newest step that has ended: only a cell's last step is sent with the curve of its memory.
        self._held: tuple[EndedStep, Notes] | None = None
        self._notes = Notes()
        self._earlier_losses: list[float] = []
        self._num_ended = 0
        # Whether gradients that are set to zero end steps, because no optimizer does.
        self._ends_at_zero = False
        self._began = 0.0
        self._spent = 0.0
        # One of every `_every` steps gets a record.
        self._every = 1
        self._has_warned = False

    def begin(self, send: Callable[[Json], None]) -> None:
        """Begins a cell, whose steps `send` gets."""
        self.forget()
        self._send = send
        self._notes = Notes()
        self._num_ended = 0
        self._ends_at_zero = False
        self._began = monotonic()
        self._spent = 0.0
        self._every = 1

    def pass_begins(self) -> None:
        """Notes that a pass begins."""
        self._recorder.memory.claim_states()
        if self._mark is not None:
            self._cut(self._mark)
        self._recorder.memory.pass_begins()

    def passed(self, loss: float) -> None:
        """Notes the loss of a backward."""
        self._notes.losses.append(loss)

    def updated(self, lr: float | None) -> None:
        """Notes that an optimizer's step() has ended."""
        self._notes.lr = lr
        self._mark = self._recorder.moment()

    def zeroed(self) -> None:
        """Notes that a model's gradients are set to zero, which ends a step of a loop without an optimizer and without `report`."""
        if self._mark is None and self._notes.losses and not self._models.has_optimizer:
            self._ends_at_zero = True
            self._mark = self._recorder.moment()

    def clipped(self, norm: float) -> None:
        """Notes the norm of the step's gradients."""
        self._notes.norm = norm

    def report(self, loss: Any) -> None:
        """
        Sets the loss of the current step, or of the step that has just ended if no pass has begun since its end. In a rank without
        an optimizer, it also ends a step. Raises ShardlabError for a value that is not one number.
        """
        value = scalar_of(loss)
        if value is None:
            raise ShardlabError("CONFIG", f"report takes a number or a tensor of one element, not {_kind_of(loss)}")
        if self._send is None:
            return
        ends_step = not self._models.has_optimizer
        if ends_step and self._mark is not None:
            self._cut(self._mark)
        self._notes.reported.append(value)
        if ends_step:
            self._mark = self._recorder.moment()

    def before_op(self, begun: float) -> None:
        """Drops the changes of a step that has too many, as an observer of `OpMode`."""
        memory = self._recorder.memory
        if memory.is_full:
            if self._mark is not None:
                self._cut(self._mark)
            memory.fold()

    def after_op(self, func: Any, args: Any, kwargs: Any, result: Any, begun: float) -> None:
        """Does nothing."""

    def end(self, loss: float | None, unseen_bytes: int | None) -> None:
        """Ends the cell; `loss` is its value if the value can be a loss."""
        if self._ends_at_zero and self._mark is None and self._notes.losses:
            self._mark = self._recorder.moment()
        is_step = self._mark is not None
        mark = self._recorder.moment() if self._num_ended == 0 else self._mark
        self._mark = None
        if mark is not None and (is_step or self._recorder.has_events):
            notes = self._notes
            if loss is not None and self._num_ended == 0 and notes.losses and not notes.reported:
                notes.reported.append(loss)
            if is_step and not notes.losses:
                notes.losses.extend(self._earlier_losses)
            if notes.losses:
                self._earlier_losses = [] if is_step else list(notes.losses)
            self._hold(self._recorder.cut(mark, unseen_bytes))
            self._flush("step" if is_step else "cell")
        self.drop()

    def drop(self) -> None:
        """Ends a cell that failed or was interrupted: its finished steps are recorded, and its unfinished step is not."""
        if self._mark is not None:
            self._cut(self._mark)
        self._flush("step")
        self.forget()

    def forget(self) -> None:
        """Forgets the open cell, if there is one."""
        self._send = None
        self._mark = None
        self._held = None

    def _cut(self, mark: Moment) -> None:
        self._mark = None
        self._hold(self._recorder.cut(mark))
        self._num_ended += 1

    def _hold(self, step: EndedStep) -> None:
        held, self._held = self._held, (step, self._notes)
        self._notes = Notes()
        if held is None:
            return
        start = monotonic()
        is_recorded = (held[0].number - 1) % self._every == 0
        self._deliver(*held, "step", has_curve=False, is_recorded=is_recorded)
        self._spent += monotonic() - start
        is_late = self._spent > MOST_TIME * (start - self._began)
        if self._num_ended > FIRST_STEPS and is_late and is_recorded:
            self._every *= 2

    def _flush(self, kind: str) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._deliver(*held, kind, has_curve=True, is_recorded=True)

    def _warn_of(self, step: EndedStep) -> None:
        if step.num_dropped > 0 and not self._has_warned:
            self._has_warned = True
            print(DROPPED.format(step.num_dropped), file=sys.stderr)

    def _deliver(self, step: EndedStep, notes: Notes, kind: str, *, has_curve: bool, is_recorded: bool) -> None:
        if self._send is None:
            return
        self._warn_of(step)
        loss = _mean(notes.reported) if notes.reported else _mean(notes.losses)
        self._send(
            {
                "kind": "minor" if kind == "cell" and step.is_minor else kind,
                "loss": _json(loss),
                "lr": _json(notes.lr),
                "gradNorm": _json(notes.norm),
                "seconds": step.seconds,
                "record": self._recorder.record(step, loss, has_curve) if is_recorded else None,
            }
        )


DROPPED = (
    "warning: this cell ran so many collectives in one step that the ledger lacks the last {} of them; "
    "run fewer collectives per cell, or call step() of an optimizer, which ends a step. This warning appears once"
)


def scalar_of(value: Any) -> float | None:
    """Returns the value of a number or of a tensor with one element; None for another value."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, torch.Tensor) or value.numel() != 1 or value.is_complex() or value.device.type == "meta":
        return None
    if isinstance(value, DTensor):
        # Otherwise, other ranks have parts of the value.
        return scalar_of(value.to_local()) if all(each.is_replicate() for each in value.placements) else None
    try:
        return float(value.detach())
    except RuntimeError:
        return None  # A fake tensor has no value, and that of a nested tensor cannot be read.


def loss_of(value: Any) -> float | None:
    """Returns a cell's value if it can be a loss: a float tensor with one element, or a float that is no whole number."""
    if isinstance(value, torch.Tensor):
        return scalar_of(value) if value.is_floating_point() else None
    return value if isinstance(value, float) and not value.is_integer() else None


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _json(value: float | None) -> float | str | None:
    return None if value is None else number(value)


def _kind_of(value: Any) -> str:
    return f"a tensor of shape {list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
