"""The delayed update: each step applies the gradients of the previous step."""

from __future__ import annotations

from collections.abc import Callable

from .json_messages import gather_json
from .layout import Layout
from .states import PENDING, States


class DelayedUpdate:
    """
    Gives the optimizer the gradients of the previous step. The first step changes nothing. The waiting gradients are a state of
    the optimizer, so checkpoints contain them. Source: as src/sharding/optim/create-optimizer.ts; ZeRO-Offload (Ren et al. 2021),
    section 5.2.
    """

    def __init__(self, states: States) -> None:
        self._states = states
        # The parameters that this rank's optimizer updates.
        self._updated = [name for name in states.parameters if name not in states.stages.frozen and states.is_updated_here(name)]
        # The parameters with a waiting gradient. A parameter that had no gradient has none, and the next update leaves it out.
        self._waiting: set[str] = set()

    def update(self, run: Callable[[], tuple[float, bool]]) -> tuple[float, bool]:
        """
        Runs an update while parameters have the gradients of the previous step. Their own gradients then wait for the next step,
        unless the update was not done, because they overflowed. Returns the result of `run`.
        """
        parameters = {name: self._states.parameters[name] for name in self._updated}
        own = {name: parameter.grad for name, parameter in parameters.items()}
        for name, parameter in parameters.items():
            parameter.grad = self._states.optimizer_states(name)[PENDING] if name in self._waiting else None
        norm, is_done = run()
        for name, grad in own.items():
            parameters[name].grad = grad
            if not is_done:
                continue
            states = self._states.optimizer_states(name)
            if grad is None:
                # Its gradient was applied. A checkpoint with it would make the next run apply it again.
                states[PENDING].zero_()
            else:
                states[PENDING] = grad
        if is_done:
            self._waiting = {name for name, grad in own.items() if grad is not None}
        return norm, is_done

    def left_out_next(self, layout: Layout) -> list[str]:
        """
        Returns the names of the parameters that the next step leaves out, because they had no gradient in the last step. Every rank of
        the run must call this method.
        """
        lacking = [name for name in self._updated if name not in self._waiting]
        every = gather_json([lacking, sorted(self._waiting)], layout.group, layout.world.device)
        # A rank whose shard of a parameter is empty may lack a gradient that others have.
        waiting = {name for _, each in every for name in each}
        return sorted({name for each, _ in every for name in each} - waiting)

    def restore(self, steps: int, left_out_next: list[str]) -> None:
        """Continues from states that were loaded after `steps` steps."""
        self._waiting = set(self._updated) - set(left_out_next) if steps > 0 else set()

    def take_from(self, old: DelayedUpdate) -> None:
        """Continues another run of the same ranks, whose states this run has taken over."""
        self._waiting = set(old._waiting)
