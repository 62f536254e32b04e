"""Compiles the forward of a model's blocks by torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .stages import Stages


class CompiledBlocks:
    """
    Compiles the forward of each block separately, so that hooks of strategies run around compiled code; a model without blocks
    is compiled as a whole. Blocks run uncompiled code in steps whose memory is tracked (a dispatch mode does not see the
    operations of compiled code), and in evaluation and sampling, where shapes change.
    """

    def __init__(self, stages: Stages, backend: str) -> None:
        self._is_on = False
        self._has_run = False
        for block in [block for _, block in stages.layers] or stages.modules:
            block.forward = self._switched(block.forward, torch.compile(block.forward, backend=backend))

    @contextmanager
    def used(self, is_profiled: bool) -> Iterator[None]:
        """
        Uses compiled code in a step. A profiled step uses plain code if no code was compiled before it, because the profile's
        dispatch mode prevents compiling.
        """
        self._is_on = self._has_run or not is_profiled
        try:
            yield
            self._has_run = self._has_run or self._is_on
        finally:
            self._is_on = False

    def _switched(self, plain: Callable[..., Any], compiled: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: (compiled if self._is_on else plain)(*args, **kwargs)
