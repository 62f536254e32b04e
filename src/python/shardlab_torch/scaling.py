"""Scales losses, so that small gradients do not become 0 in float16, and leaves out updates whose gradients overflowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace

import torch
from torch import nn
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

from .errors import Json
from .gradients import local_of
from .layout import Layout


class Unscaled:
    """Leaves losses as they are, and does every update."""

    @property
    def factor(self) -> float:
        """The factor by which passes multiply losses."""
        return 1.0

    def unscale(self, parameters: Iterable[nn.Parameter]) -> None:
        """Divides gradients by the factor. Every rank of the run must call this method."""

    def step(self, update: Callable[[], None]) -> bool:
        """Ends a step: runs `update`, unless a gradient of any rank overflowed. Returns whether it ran."""
        update()
        return True

    def state(self) -> Json | None:
        """Returns what a checkpoint stores."""
        return None

    def restore(self, state: Json) -> None:
        """Continues from a checkpoint's state."""


class LossScaler(Unscaled):
    """
    Scales losses by the rules of PyTorch's GradScaler. FSDP's scaler is used under every strategy: it asks all ranks of the run
    whether a gradient overflowed, and ranks of a pipeline or with other experts have other gradients.
    """

    def __init__(self, settings: Json, layout: Layout) -> None:
        device = layout.world.device
        self._scaler = ShardedGradScaler(
            device.type,
            init_scale=float(settings["initScale"]),
            growth_factor=float(settings["growthFactor"]),
            backoff_factor=float(settings["backoffFactor"]),
            growth_interval=int(settings["growthInterval"]),
            process_group=layout.group,
        )
        # The scaler makes its state when it first scales; here, passes multiply the loss themselves.
        self._scaler.scale(torch.zeros((), device=device))
        self._gradients = SimpleNamespace(param_groups=[])

    @property
    def factor(self) -> float:
        return float(self._scaler.get_scale())

    def unscale(self, parameters: Iterable[nn.Parameter]) -> None:
        # A scaler reads `param_groups` of an optimizer. It divides lists of gradients at once, but DTensors of different meshes
        # cannot be in one list, so it gets this rank's parts.
        parts = [SimpleNamespace(grad=local_of(each.grad)) for each in parameters if each.grad is not None]
        self._gradients = SimpleNamespace(param_groups=[{"params": parts}])
        self._scaler.unscale_(self._gradients)  # type: ignore[arg-type]

    def step(self, update: Callable[[], None]) -> bool:
        is_done = False

        def run() -> None:
            nonlocal is_done
            update()
            is_done = True

        self._gradients.step = run
        self._scaler.step(self._gradients)  # type: ignore[arg-type]
        self._scaler.update()
        return is_done

    def state(self) -> Json | None:
        state = self._scaler.state_dict()
        return {"scale": state["scale"], "growthTracker": state["_growth_tracker"]}

    def restore(self, state: Json) -> None:
        own = self._scaler.state_dict()
        self._scaler.load_state_dict({**own, "scale": float(state["scale"]), "_growth_tracker": int(state["growthTracker"])})
