"""
The video transformer of shardlab (Wan2.2's), with its parameter names: one transformer, or two between which the timestep
chooses.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import Attend, attention_to_all
from .errors import Json
from .llama import RMSNorm, frequencies

# The base of all sinusoids' frequencies. Source: Wan2.2's sinusoidal_embedding_1d and rope_params.
THETA = 10_000
# The number of timesteps from a clean video to pure noise. Source: Wan2.2's num_train_timesteps.
NUM_TIMESTEPS = 1000

Angles = tuple[Tensor, Tensor]


class PatchParts(Protocol):
    """Divides the patches of a video over ranks. Shapes: x [B, N, d], which is cut and gathered along a dim."""

    def cut(self, x: Tensor, dim: int = 1) -> Tensor: ...

    def gather(self, x: Tensor) -> Tensor: ...


class DitAttention(nn.Module):
    """Attention of a video to itself (rotary positions) or to `source`. Shapes: x [B, N, d], source [B, L, d] → [B, N, d]."""

    def __init__(self, shape: Json) -> None:
        super().__init__()
        dim, eps = shape["dim"], shape["normEps"]
        self.head_dim = dim // shape["heads"]
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.norm_q, self.norm_k = RMSNorm(dim, eps), RMSNorm(dim, eps)
        # Context parallelism replaces this function in attention of a video to itself.
        self.attend: Attend = attention_to_all

    def forward(self, x: Tensor, source: Tensor, angles: Angles | None = None) -> Tensor:
        q, k, v = self.norm_q(self.q(x)), self.norm_k(self.k(source)), self.v(source)
        q, k, v = (part.unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for part in (q, k, v))
        if angles is not None:
            q, k = _rotated(q, angles), _rotated(k, angles)
        out: Tensor = self.o(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return out


class AudioAttention(nn.Module):
    """Attention of the patches of each latent frame to its audio. Shapes: x [B, N, d], audio [B, F, A, d] → [B, N, d]."""

    def __init__(self, shape: Json) -> None:
        super().__init__()
        self.eps = shape["normEps"]
        self.attn = DitAttention(shape)
        # None: this rank has all patches. A rank's patches may end within a frame, so all patches are gathered.
        self.parts: PatchParts | None = None

    def forward(self, x: Tensor, audio: Tensor) -> Tensor:
        heard = audio.flatten(0, 1)
        whole = x if self.parts is None else self.parts.gather(x)
        mixed: Tensor = self.attn(_normalized(whole, self.eps).reshape(len(heard), -1, x.shape[2]), heard).view_as(whole)
        return mixed if self.parts is None else self.parts.cut(mixed)


class DitBlock(nn.Module):
    """
    A block of self-attention, cross-attention to the text, and a feed-forward layer; the timestep modulates the block, which may
    also attend to audio. Shapes: x [B, N, d], time [B, 6, d], text [B, L, d], cos and sin [N, P], audio [B, F, A, d] → [B, N, d].
    """

    def __init__(self, shape: Json, has_audio: bool) -> None:
        super().__init__()
        dim, ffn, self.eps = shape["dim"], shape["ffn"], shape["normEps"]
        self.modulation = nn.Parameter(torch.empty(1, 6, dim))
        self.self_attn = DitAttention(shape)
        self.norm3 = nn.LayerNorm(dim, eps=self.eps)
        self.cross_attn = DitAttention(shape)
        self.ffn = nn.Sequential(nn.Linear(dim, ffn), nn.GELU("tanh"), nn.Linear(ffn, dim))
        self.audio_attn = AudioAttention(shape) if has_audio else None

    def forward(self, x: Tensor, time: Tensor, text: Tensor, cos: Tensor, sin: Tensor, audio: Tensor | None) -> Tensor:
        shift, scale, gate, shift2, scale2, gate2 = (self.modulation + time).chunk(6, dim=1)
        own = _modulated(x, shift, scale, self.eps)
        x = x + self.self_attn(own, own, (cos, sin)) * gate
        x = x + self.cross_attn(self.norm3(x), text)
        x = x + self.ffn(_modulated(x, shift2, scale2, self.eps)) * gate2
        return x if self.audio_attn is None else x + self.audio_attn(x, audio)


class DitHead(nn.Module):
    """The last norm, modulated by the timestep, and the last linear layer. Shapes: x [B, N, d], time [B, d] → [B, N, t·p·q·C]."""

    def __init__(self, shape: Json) -> None:
        super().__init__()
        t, p, q = shape["patch"]
        self.eps = shape["normEps"]
        self.modulation = nn.Parameter(torch.empty(1, 2, shape["dim"]))
        self.head = nn.Linear(shape["dim"], t * p * q * shape["outChannels"])

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        shift, scale = (self.modulation + time.unsqueeze(1)).chunk(2, dim=1)
        out: Tensor = self.head(_modulated(x, shift, scale, self.eps))
        return out


class PatchEmbedding(nn.Module):
    """A linear layer on patches. Shapes: [B, C, f·t, h·p, w·q] → [B, f·h·w, d]; weight [d, C, t, p, q], as in torch.nn.Conv3d."""

    def __init__(self, shape: Json) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape["dim"], shape["inChannels"], *shape["patch"]))
        self.bias = nn.Parameter(torch.empty(shape["dim"]))

    def forward(self, x: Tensor) -> Tensor:
        (batch, channels, frames, rows, columns), (t, p, q) = x.shape, self.weight.shape[2:]
        parts = x.reshape(batch, channels, frames // t, t, rows // p, p, columns // q, q)
        patches = parts.permute(0, 2, 4, 6, 1, 3, 5, 7).flatten(4).flatten(1, 3)
        return F.linear(patches, self.weight.flatten(1), self.bias)


class Dit(nn.Module):
    """
    One transformer. Shapes: latents [B, inChannels, F, H, W], timesteps [B], text [B, textLen, textDim], audio [B, F, audioDim] →
    [B, outChannels, F, H, W].
    """

    def __init__(self, shape: Json) -> None:
        super().__init__()
        dim = shape["dim"]
        self.shape = shape
        self.patch_embedding = PatchEmbedding(shape)
        self.text_embedding = nn.Sequential(nn.Linear(shape["textDim"], dim), nn.GELU("tanh"), nn.Linear(dim, dim))
        self.time_embedding = nn.Sequential(nn.Linear(shape["freqDim"], dim), nn.SiLU(), nn.Linear(dim, dim))
        self.time_projection = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))
        heard = shape["audioLayers"]
        self.blocks = nn.ModuleDict({str(i): DitBlock(shape, i in heard) for i in range(shape["layers"])})
        self.audio_encoder = nn.Linear(shape["audioDim"], shape["audioTokens"] * dim) if heard else None
        self.head = DitHead(shape)
        # None: this rank computes all patches.
        self.parts: PatchParts | None = None

    def divide(self, parts: PatchParts, attend: Attend) -> None:
        """Divides the patches over ranks (context parallelism); `attend` computes attention to the patches of all ranks."""
        self.parts = parts
        block: Any
        for block in self.blocks.values():
            block.self_attn.attend = attend
            if block.audio_attn is not None:
                block.audio_attn.parts = parts

    @property
    def layers(self) -> nn.ModuleDict:
        """The transformer's blocks, by their index."""
        return self.blocks

    def forward(self, latents: Tensor, timesteps: Tensor, text: Tensor, audio: Tensor | None = None) -> Tensor:
        dim, (t, p, q) = self.shape["dim"], self.shape["patch"]
        f, h, w = (extent // size for extent, size in zip(latents.shape[2:], (t, p, q), strict=True))
        cos, sin = _grid_angles(f, h, w, dim // self.shape["heads"] // 2, latents.device)
        sinusoids = torch.outer(timesteps, frequencies(self.shape["freqDim"] // 2, THETA, latents.device))
        time = self.time_embedding(torch.cat([sinusoids.cos(), sinusoids.sin()], 1).to(latents.dtype))
        time6 = self.time_projection(time).unflatten(1, (6, dim))
        context = self.text_embedding(text)
        tokens = None if self.audio_encoder is None else self.audio_encoder(audio).unflatten(2, (-1, dim))
        x = self.patch_embedding(latents)
        if self.parts is not None:
            x, cos, sin = self.parts.cut(x), self.parts.cut(cos, 0), self.parts.cut(sin, 0)
        for block in self.blocks.values():
            x = block(x, time6, context, cos, sin, tokens)
        # The channel is the innermost index of a patch. Source: Wan2.2's unpatchify.
        velocity = self.head(x, time)
        if self.parts is not None:
            velocity = self.parts.gather(velocity)
        video: Tensor = velocity.view(len(x), f, h, w, t, p, q, -1).permute(0, 7, 1, 4, 2, 5, 3, 6).reshape(len(x), -1, f * t, h * p, w * q)
        return video


class DitExperts(nn.Module):
    """Two transformers, one for high noise and one for low noise. In a step, only one of them runs and gets gradients."""

    def __init__(self, shape: Json) -> None:
        super().__init__()
        self.high_noise_model, self.low_noise_model = Dit(shape), Dit(shape)
        self._border = shape["boundary"] * NUM_TIMESTEPS
        self._is_high = True

    def choose(self, timestep: float) -> None:
        """Chooses the transformer of the next forward by the timestep of its batch, before a strategy rounds the timestep."""
        self._is_high = timestep >= self._border

    @property
    def idle(self) -> str:
        """The prefix of the parameter names of the transformer that is not chosen."""
        return "low_noise_model." if self._is_high else "high_noise_model."

    def forward(self, *inputs: Tensor) -> Tensor:
        video: Tensor = (self.high_noise_model if self._is_high else self.low_noise_model)(*inputs)
        return video


def new_dit(shape: Json, *_: Any) -> nn.Module:
    """Makes a model's transformer, or both transformers. A video model has no stages."""
    return Dit(shape) if shape["experts"] == 1 else DitExperts(shape)


def experts_of(model: nn.Module) -> list[Any]:
    """Returns the transformers between which the timestep chooses; a model of another kind has none."""
    return [model.high_noise_model, model.low_noise_model] if isinstance(model, DitExperts) else []


def _normalized(x: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], eps=eps)


def _modulated(x: Tensor, shift: Tensor, scale: Tensor, eps: float) -> Tensor:
    """Normalizes rows, then scales and shifts them. Shapes: x [B, N, d], shift and scale [B, 1, d]."""
    return _normalized(x, eps) * (scale + 1) + shift


def _rotated(x: Tensor, angles: Angles) -> Tensor:
    """Rotates pairs (2i, 2i + 1) of each head by angles of the position. Shapes: x [B, H, N, 2P]. Source: Wan2.2's rope_apply."""
    cos, sin = angles
    a, b = x.float().reshape(*x.shape[:-1], -1, 2).unbind(-1)
    return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2).to(x.dtype)


def _grid_angles(f: int, h: int, w: int, pairs: int, device: torch.device) -> Angles:
    """
    Returns cosines and sines of the angles of a grid's positions: a third of the pairs turns with the row, a third with the
    column, the rest with the frame. Shapes: [f·h·w, pairs]. Source: Wan2.2's rope_params and rope_apply.
    """
    third = pairs // 3
    parts = []
    for axis, (extent, share) in enumerate(((f, pairs - 2 * third), (h, third), (w, third))):
        places = torch.arange(extent, device=device, dtype=torch.float32)
        turned = torch.outer(places, frequencies(share, THETA, device))
        parts.append(turned.view([extent if i == axis else 1 for i in range(3)] + [share]).expand(f, h, w, share))
    angles = torch.cat(parts, -1).view(f * h * w, pairs)
    return angles.cos(), angles.sin()
