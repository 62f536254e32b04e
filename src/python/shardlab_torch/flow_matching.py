"""Passes of a model that predicts the velocity of noised videos. Source: as src/training/flow-matching.ts."""

from __future__ import annotations

import math

from torch import Tensor

from .batches import Batch
from .dit import DitExperts
from .head import Output
from .passes import Passes


class VideoPasses(Passes):
    """Passes whose loss is the mean squared error of the velocity (noise - video). A batch has the velocity and model inputs."""

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
