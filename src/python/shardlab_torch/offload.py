"""What a config stores on the host while ranks compute on a GPU."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.autograd.graph import save_on_cpu
from torch.distributed.fsdp import CPUOffload, CPUOffloadPolicy

from .errors import Json, ShardlabError


class Offload:
    """
    PyTorch's settings for `offload`. On a CPU rank, device and host have the same memory: then nothing moves, and these settings
    are those without offload. Raises ShardlabError on a GPU for what PyTorch does not offload.
    """

    def __init__(self, config: Json, device: torch.device) -> None:
        asked = {
            "optimizer": bool(config["offload"]["optimizer"]),
            "parameters": bool(config["offload"]["parameters"]),
            "activations": bool(config["offload"]["activations"]),
        }
        self._names = [name for name, is_asked in asked.items() if is_asked]
        self.moves = device.type != "cpu"
        self.optimizer = self.moves and asked["optimizer"]
        self.parameters = self.moves and asked["parameters"]
        self._activations = self.moves and asked["activations"]

    def require_whole(self, shards_parameters: bool) -> None:
        """Raises ShardlabError if optimizer states shall move alone, which FSDP and DDP do not do."""
        if self.optimizer and not (self.parameters and shards_parameters):
            raise ShardlabError(
                "CONFIG",
                "offload.optimizer: FSDP moves optimizer states only together with parameters, and DDP moves nothing; "
                "write offload.parameters under FULL_SHARD, or use framework 'deepspeed'",
            )

    def fully_shard(self) -> Json:
        """Returns the arguments of `fully_shard`."""
        return {"offload_policy": CPUOffloadPolicy(pin_memory=True)} if self.parameters else {}

    def fsdp1(self, adds_reduced: bool) -> Json:
        """
        Returns the arguments of `FullyShardedDataParallel`. `adds_reduced`: several microbatches of a step reduce their gradients.
        Raises ShardlabError, because FSDP1 then keeps only the last gradient if it is on the host.
        """
        if self.parameters and adds_reduced:
            raise ShardlabError(
                "CONFIG",
                "offload.parameters: FSDP1 does not add gradients on the host, so with accumulation each step would keep only its last "
                "gradient; set parallel.noSync to true, or use framework 'fsdp2'",
            )
        return {"cpu_offload": CPUOffload(offload_params=True)} if self.parameters else {}

    def deepspeed(self, stage: int) -> Json:
        """Returns DeepSpeed's settings of ZeRO. Only stage 3 has shards of parameters."""
        host = {"device": "cpu", "pin_memory": True}
        moves_parameters = self.parameters and stage == 3
        settings: Json = {"offload_param": host} if moves_parameters else {}
        # If shards of parameters are on the host, the optimizer runs there.
        return {**settings, "offload_optimizer": host} if self.optimizer or moves_parameters else settings

    def activations(self) -> contextlib.AbstractContextManager[Any]:
        """Returns the context in which values that forward saves for backward move to the host."""
        return save_on_cpu(pin_memory=True) if self._activations else contextlib.nullcontext()

    def note(self) -> str | None:
        """Returns a sentence for a run that shall offload, but has nowhere to move anything; None: no such run."""
        if self.moves or not self._names:
            return None
        names = " and ".join(f"offload.{name}" for name in self._names)
        return f"{names}: nothing moves, because these ranks compute on CPUs, whose memory is the host's"
