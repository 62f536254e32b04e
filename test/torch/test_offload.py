"""What ranks on GPUs pass to PyTorch and DeepSpeed for `offload`; there is no GPU here, so this tests only the arguments."""

from __future__ import annotations

import pytest
import torch
from launcher import config
from torch.autograd.graph import save_on_cpu
from torch.distributed.fsdp import CPUOffload, CPUOffloadPolicy

from shardlab_torch.errors import ShardlabError
from shardlab_torch.offload import Offload

HOST = {"device": "cpu", "pin_memory": True}


def offload(device: str, **changes: bool) -> Offload:
    return Offload(config(**{f"offload__{name}": value for name, value in changes.items()}), torch.device(device))


def test_parameters_on_gpus_move_by_the_policies_of_each_framework() -> None:
    made = offload("cuda", parameters=True, optimizer=True)
    made.require_whole(True)
    policy = made.fully_shard()["offload_policy"]
    assert isinstance(policy, CPUOffloadPolicy) and policy.pin_memory
    assert made.fsdp1(False) == {"cpu_offload": CPUOffload(offload_params=True)}
    assert made.deepspeed(3) == {"offload_param": HOST, "offload_optimizer": HOST}
    assert made.deepspeed(2) == {"offload_optimizer": HOST}
    assert offload("cuda", parameters=True).deepspeed(3) == {"offload_param": HOST, "offload_optimizer": HOST}
    assert offload("cuda", optimizer=True).deepspeed(1) == {"offload_optimizer": HOST}
    assert made.note() is None


def test_deepspeed_reads_its_settings() -> None:
    zero = pytest.importorskip("deepspeed.runtime.zero.config")
    read = zero.DeepSpeedZeroConfig(stage=3, **offload("cuda", parameters=True).deepspeed(3))
    assert read.offload_param.device == "cpu" and read.offload_optimizer.pin_memory


def test_activations_on_gpus_are_saved_on_the_host() -> None:
    assert isinstance(offload("cuda", activations=True).activations(), save_on_cpu)
    assert not isinstance(offload("cuda", parameters=True).activations(), save_on_cpu)


def test_what_pytorch_does_not_move_is_refused_on_gpus() -> None:
    alone = offload("cuda", optimizer=True)
    for shards in (True, False):
        with pytest.raises(ShardlabError, match="FSDP moves optimizer states only together with parameters.*use framework 'deepspeed'"):
            alone.require_whole(shards)
    with pytest.raises(ShardlabError, match="FSDP1 does not add gradients on the host.*parallel.noSync"):
        offload("cuda", parameters=True).fsdp1(True)


def test_on_cpus_nothing_moves_and_a_note_says_so() -> None:
    made = offload("cpu", optimizer=True, parameters=True, activations=True)
    made.require_whole(False)
    assert (made.fully_shard(), made.fsdp1(True), made.deepspeed(3)) == ({}, {}, {})
    assert not isinstance(made.activations(), save_on_cpu)
    assert made.note() == (
        "offload.optimizer and offload.parameters and offload.activations: nothing moves, because these ranks compute on CPUs, whose "
        "memory is the host's"
    )
    assert offload("cpu").note() is None
