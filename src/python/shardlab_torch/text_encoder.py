"""A frozen text encoder beside a trained model."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from .checkpoint import Reader
from .errors import Json
from .gradients import local_of
from .layout import Layout
from .precision import Precision
from .states import local_part
from .t5 import T5Encoder


class _Beside(nn.Module):
    """A module around the encoder, so that the names of the encoder's modules begin with `text_encoder`."""

    def __init__(self, shape: Json) -> None:
        super().__init__()
        self.text_encoder = T5Encoder(shape)

    def forward(self, ids: Tensor, seen: Tensor) -> Tensor:
        hidden: Tensor = self.text_encoder(ids, seen)
        return hidden


class FrozenTextEncoder:
    """
    Encodes the texts of a rank's own batches, without gradients. With `fsdp`, the encoder's parameters are sharded over all ranks
    of the run, so every rank must encode at the same time. Source: Wan2.2's T5EncoderModel and t5_fsdp.
    """

    def __init__(self, given: Json, config: Json, layout: Layout) -> None:
        """`given` has the encoder's sizes, and the folder with its values."""
        self._device = layout.world.device
        with torch.device("meta"):
            self.module = _Beside(given["shape"]).requires_grad_(False).eval()
        if given["fsdp"] and len(layout.ranks) > 1:
            mesh, groups = layout.world.mesh({"ranks": len(layout.ranks)}, layout.ranks)
            layout.groups += groups
            precision = Precision(config)
            policy = MixedPrecisionPolicy(precision.param, cast_forward_inputs=precision.cast_inputs)
            for unit in (*self.module.text_encoder.blocks, self.module.text_encoder):
                fully_shard(unit, mesh=mesh, mp_policy=policy)
        self.module.to_empty(device=self._device)
        values = Reader(given["folder"], "text_encoder")
        values.require({name: each.shape for name, each in self.module.named_parameters()})
        with torch.no_grad():
            for name, parameter in self.module.named_parameters():
                value = values.tensor(name).to(self._device)
                local_of(parameter).copy_(local_part(value, parameter) if isinstance(parameter, DTensor) else value)

    def encode(self, tokens: Tensor) -> Tensor:
        """Encodes texts; token 0 is padding. Shapes: tokens [B, L] → [B, L, d], 0 at padding."""
        seen = (tokens != 0).float()
        try:
            # A strategy's autocast is for the model, not for the encoder.
            with torch.no_grad(), torch.autocast(self._device.type, enabled=False):
                hidden: Tensor = self.module(tokens, seen)
        finally:
            for unit in self.module.modules():
                if isinstance(unit, FSDPModule):
                    unit.reshard()
        return hidden.float() * seen.unsqueeze(2)
