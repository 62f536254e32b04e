"""Passes of a model that predicts the velocity of noised videos. Source: as src/training/flow-matching.ts."""

from __future__ import annotations

import math
from dataclasses import replace

from torch import Tensor

from .batches import Batch
from .dit import DitExperts
from .errors import Json
from .head import Output
from .layout import Layout
from .passes import Passes, Span
from .stages import Stages
from .strategy import Strategy
from .text_encoder import FrozenTextEncoder


class VideoPasses(Passes):
    """
    Passes whose loss is the mean squared error of the velocity (noise - video). A batch has the velocity and model inputs; if there
    is a text encoder, it has tokens in place of the embedded text.
    """

    def __init__(
        self, strategy: Strategy, stages: Stages, layout: Layout, shape: Json, text_encoder: FrozenTextEncoder | None
    ) -> None:
        super().__init__(strategy, stages, layout, shape)
        self._text_encoder = text_encoder

    def run(self, batch: Batch, scale: float, is_last: bool, span: Span) -> float:
        if self._text_encoder is not None:
            with span("data"):
                batch = self._encoded(batch, self._text_encoder)
        return super().run(batch, scale, is_last, span)

    def loss(self, batch: Batch) -> float:
        return super().loss(batch if self._text_encoder is None else self._encoded(batch, self._text_encoder))

    def _encoded(self, batch: Batch, text_encoder: FrozenTextEncoder) -> Batch:
        velocity, latents, timesteps, tokens, *others = batch.tensors
        return replace(batch, tensors=(velocity, latents, timesteps, text_encoder.encode(tokens), *others))

    def count(self, batch: Batch) -> int:
        latent, patch = (math.prod(map(int, self.shape[key])) for key in ("latent", "patch"))
        return len(batch.tensors[0]) * (latent // patch)

    def _inputs(self, batch: Batch) -> tuple[tuple[Tensor, ...], Tensor]:
        velocity, *inputs = batch.tensors
        for module in self.stages.modules:
            if isinstance(module, DitExperts):
                module.choose(float(inputs[1][0]))
        return tuple(inputs), velocity

    def _mean_loss(self, output: Output, velocity: Tensor, has_labels: bool) -> Tensor:
        assert isinstance(output, Tensor)
        return (output.float() - velocity).square().mean()
