"""A stage of a pipeline that tells its neighbours the shapes of its tensors as JSON; torch's own stage sends a pickle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch.distributed import ProcessGroup
from torch.distributed.pipelining import PipelineStage, _utils

from .errors import Json, ShardlabError
from .json_messages import receive_json, send_json

_UTILS: Any = _utils


class JsonStage(PipelineStage):
    """
    A stage of a pipeline; `begin` is called before each forward of a microbatch. Before the first microbatch, torch calls
    `_send_meta` and `_recv_meta` to learn the shapes of what will arrive.
    """

    def __init__(self, *args: Any, begin: Callable[[], None], **options: Any) -> None:
        super().__init__(*args, **options)
        self._begin = begin

    def forward_one_chunk(self, *args: Any, **options: Any) -> Any:
        self._begin()
        return super().forward_one_chunk(*args, **options)

    def _send_meta(self, meta: Any, dst_stage: int) -> None:
        is_forward = isinstance(meta, _UTILS._StageForwardMeta)
        tensors = meta.forward_metas if is_forward else meta.backward_metas
        message = {"isForward": is_forward, "tensors": [_described(one) for one in tensors]}
        send_json(message, self._rank_of(dst_stage), cast(ProcessGroup, self.group), self.device)

    def _recv_meta(self, src_stage: int) -> Any:
        message = receive_json(self._rank_of(src_stage), cast(ProcessGroup, self.group), self.device)
        kind = _UTILS._StageForwardMeta if message["isForward"] else _UTILS._StageBackwardMeta
        return kind(tuple(_meta(one) for one in message["tensors"]))

    def _rank_of(self, stage: int) -> int:
        return int(self._resolve_peer_global_rank(stage))


def _described(meta: Any) -> Json | None:
    if meta is None:
        return None
    if type(meta) is not _UTILS._TensorMeta:
        raise ShardlabError("INTERNAL", f"a pipeline's stage would send a {type(meta).__name__}, but stages send plain tensors here")
    dtype = str(meta.dtype).removeprefix("torch.")
    return {"shape": list(meta.shape), "stride": list(meta.stride), "dtype": dtype, "requiresGrad": meta.requires_grad}


def _meta(one: Json | None) -> Any:
    if one is None:
        return None
    dtype = getattr(torch, one["dtype"])
    return _UTILS._TensorMeta(torch.Size(one["shape"]), tuple(one["stride"]), dtype, one["requiresGrad"])
